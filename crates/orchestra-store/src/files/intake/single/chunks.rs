//! Takes in a file of remembered texts: text by text.

use std::collections::BTreeMap;

use orchestra_board::Slug;

use super::{Known, Taken};
use crate::files::Work;
use crate::files::fields::{Side, of_chunks};
use crate::files::intake::Trouble;
use crate::files::intake::trouble::check_project;
use crate::reader::Reader;
use crate::toon::records;
use crate::{Chunk, ChunkId};

pub(super) fn take_in(
    work: &mut dyn Work,
    path: &str,
    text: &str,
    (slug, segment): (&Slug, u64),
    known: &Known,
) -> Result<Taken, Trouble> {
    let file = records::read_chunks(path, text, slug)?;
    let reader = Reader::new(work.connection());
    check_project(&reader, path, slug)?;
    let board = reader.segment(slug, segment)?;
    let (file_fields, board_fields) = (of_chunks(&file), of_chunks(&board));
    let sides = known.sides(&board_fields, &file_fields);
    let mut merged: BTreeMap<ChunkId, Chunk> = board
        .iter()
        .map(|chunk| (chunk.id, chunk.clone()))
        .collect();
    let mut files: BTreeMap<String, Chunk> = file
        .into_iter()
        .map(|chunk| (chunk.id.to_string(), chunk))
        .collect();
    let (mut both, mut agreed) = (Vec::new(), sides.agreed());
    for name in sides.names() {
        match sides.of(name) {
            Side::Board => {}
            _ if !known.follows && is_earlier(files.get(name), &board) => {}
            Side::File => {
                if let Ok(id) = ChunkId::parse(name) {
                    merged.remove(&id);
                }
                merged.extend(files.remove(name).map(|chunk| (chunk.id, chunk)));
            }
            Side::Both => {
                both.push(name.to_owned());
                continue;
            }
        }
        agreed.take(name, &file_fields);
    }
    let merged: Vec<Chunk> = merged.into_values().collect();
    if merged != board {
        work.load_chunks(slug, segment, &merged)?;
    }
    Ok(Taken { base: agreed, both })
}

/// Whether a text of a file is taken for an earlier state of the board's: it is missing, or has another time of its last
/// change.
fn is_earlier(file: Option<&Chunk>, board: &[Chunk]) -> bool {
    let Some(file) = file else {
        return true;
    };
    let mut board = board.iter();
    board.any(|chunk| chunk.id == file.id && chunk.updated_at != file.updated_at)
}
