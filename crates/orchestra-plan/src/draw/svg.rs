//! A graph as a picture: SVG without scripts, links or anything from elsewhere, in light and dark.

use std::fmt::Write;

use super::{
    Graph, Layout, Look, Place, What,
    label::{cut, cut_to_pixels, xml},
};

const BOX_WIDTH: usize = 208;
const BOX_HEIGHT: usize = 48;
const LAYER_WIDTH: usize = BOX_WIDTH + 72;
/// The height of one step of a layout; a box takes two.
const STEP: usize = 32;
const MARGIN: usize = 24;
/// The room for the title.
const HEAD: usize = 40;
/// The room for a job's name behind its mark, and for what stands below it in smaller letters.
const NAME_PIXELS: usize = 166;
const BELOW_PIXELS: usize = 214;

/// The graph as a picture of its own: left to right, with a title and a description for who cannot
/// see it, and colours for light and for dark.
#[must_use]
pub fn svg(graph: &Graph<'_>) -> String {
    let layout = Layout::of(graph);
    let width =
        2 * MARGIN + (layout.layers().len().max(1) * LAYER_WIDTH) - (LAYER_WIDTH - BOX_WIDTH);
    let height = 2 * MARGIN + HEAD + layout.height() * STEP;
    let title = xml(&cut(graph.title(), 200));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"orchestra-plan\" role=\"img\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{title}</title>\n<desc>{}</desc>",
        described(graph)
    );
    style(&mut text);
    let _ = writeln!(
        text,
        "<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
        MARGIN + 16,
        xml(&cut(graph.title(), 80)),
    );
    lines(&mut text, graph, &layout);
    for (layer, slots) in layout.layers().iter().enumerate() {
        for slot in slots {
            if let What::Job(job) = slot.what {
                let (x, y) = (
                    MARGIN + layer * LAYER_WIDTH,
                    MARGIN + HEAD + slot.top * STEP,
                );
                job_box(&mut text, graph, job, x, y);
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

/// What the picture shows, in words.
fn described(graph: &Graph<'_>) -> String {
    let mut text = format!("A graph of {} jobs", graph.nodes().len());
    for look in Look::ALL {
        let nodes = 0..graph.nodes().len();
        let count = nodes.filter(|node| graph.look(*node) == look).count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", look.class());
        }
    }
    text
}

fn style(text: &mut String) {
    text.push_str(
        "<style>\n\
         .orchestra-plan text { font: 14px system-ui, sans-serif; fill: #111827; }\n\
         .orchestra-plan .head { font-size: 18px; font-weight: 600; }\n\
         .orchestra-plan .small { font-size: 12px; fill: #374151; }\n\
         .orchestra-plan .ground { fill: #ffffff; }\n\
         .orchestra-plan .line { fill: none; stroke: #6b7280; stroke-width: 1.5; }\n\
         .orchestra-plan .tip { fill: #6b7280; }\n\
         .orchestra-plan .job rect { stroke-width: 1.5; }\n",
    );
    for look in Look::ALL {
        let (fill, line) = look.paper();
        let class = look.class();
        let _ = writeln!(
            text,
            ".orchestra-plan .{class} rect {{ fill: {fill}; stroke: {line}; }}"
        );
    }
    text.push_str(
        "@media (prefers-color-scheme: dark) {\n\
         .orchestra-plan text { fill: #f9fafb; }\n\
         .orchestra-plan .small { fill: #d1d5db; }\n\
         .orchestra-plan .ground { fill: #030712; }\n\
         .orchestra-plan .line { stroke: #9ca3af; }\n\
         .orchestra-plan .tip { fill: #9ca3af; }\n",
    );
    for look in Look::ALL {
        let (fill, line) = look.screen();
        let class = look.class();
        let _ = writeln!(
            text,
            ".orchestra-plan .{class} rect {{ fill: {fill}; stroke: {line}; }}"
        );
    }
    text.push_str("}\n</style>\n");
}

fn lines(text: &mut String, graph: &Graph<'_>, layout: &Layout) {
    let y = |place: Place| MARGIN + HEAD + layout.slot(place).top * STEP + BOX_HEIGHT / 2;
    let left = |place: Place| MARGIN + place.layer * LAYER_WIDTH;
    for link in layout.links() {
        let (from, to) = (left(link.from) + BOX_WIDTH, left(link.to));
        let (start, end) = (y(link.from), y(link.to));
        let bend = (from + to) / 2;
        let _ = writeln!(
            text,
            "<path class=\"line\" d=\"M{from} {start}C{bend} {start} {bend} {end} {to} {end}\"/>"
        );
    }
    for (layer, slots) in layout.layers().iter().enumerate() {
        for (row, slot) in slots.iter().enumerate() {
            let place = Place { layer, row };
            let (x, y) = (left(place), y(place));
            match slot.what {
                What::Lane(_) => {
                    let end = x + BOX_WIDTH;
                    let _ = writeln!(text, "<path class=\"line\" d=\"M{x} {y}H{end}\"/>");
                }
                What::Job(job) if !graph.dependencies(job).is_empty() => {
                    let _ = writeln!(text, "<path class=\"tip\" d=\"M{x} {y}l-8 -4v8z\"/>");
                }
                What::Job(_) => {}
            }
        }
    }
}

fn job_box(text: &mut String, graph: &Graph<'_>, job: usize, x: usize, y: usize) {
    let node = &graph.nodes()[job];
    let look = graph.look(job);
    let name = xml(&cut_to_pixels(node.name, NAME_PIXELS));
    let below = match node.group {
        Some(group) => format!("{} · {group}", node.status),
        None => node.status.to_owned(),
    };
    let _ = writeln!(
        text,
        "<g class=\"job {}\"><title>{} ({}): {}</title>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"8\"/>\
         <text x=\"{text_x}\" y=\"{name_y}\">{} {name}</text>\
         <text class=\"small\" x=\"{text_x}\" y=\"{below_y}\">{}</text></g>",
        look.class(),
        xml(&cut(node.name, 200)),
        xml(&cut(node.producer_id, 200)),
        xml(&cut(&below, 400)),
        look.mark(),
        xml(&cut_to_pixels(&below, BELOW_PIXELS)),
        text_x = x + 12,
        name_y = y + 20,
        below_y = y + 38,
    );
}
