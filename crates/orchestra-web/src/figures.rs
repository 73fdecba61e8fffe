//! The figures of the program for whatever collects such, in the format of OpenMetrics 1.0, which
//! Prometheus reads.

use std::fmt;

use orchestra_hub::{Hub, MetricsReport, PeerReport, PeerStatus, ProviderId, ToolReport};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, text,
    },
    metrics::MetricType,
    registry::{Registry, Unit},
};

/// The media type of the format.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All figures as they are now.
pub(crate) fn text(hub: &Hub) -> String {
    let mut registry = Registry::with_prefix("orchestra");
    registry.register_collector(Box::new(Figures {
        calls: hub.metrics(),
        tools: hub.tool_metrics(),
        servers: hub.peers(),
    }));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes all that is written");
    text
}

#[derive(Debug)]
struct Figures {
    calls: MetricsReport,
    tools: Vec<ToolReport>,
    servers: Vec<(ProviderId, PeerReport)>,
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.calls(&mut page)?;
        self.tools(&mut page)?;
        self.states(&mut page)?;
        self.traffic(&mut page)?;
        self.times(&mut page)
    }
}

impl Figures {
    fn calls(&self, page: &mut Page<'_>) -> fmt::Result {
        let ends = self.calls.ends.iter();
        page.counters(
            ("calls", "Calls through all transports, by outcome", None),
            ends.map(|(end, count)| ([("end", end.name())], *count)),
        )?;
        let help = "Calls in progress";
        let mut waiting =
            page.0
                .encode_descriptor("calls_waiting", help, None, MetricType::Gauge)?;
        waiting.encode_gauge(&self.calls.waiting)?;
        let classes = self.calls.latency.iter();
        let classes: Vec<(f64, u64)> = classes
            .map(|(bound, count)| {
                (
                    bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()),
                    *count,
                )
            })
            .collect();
        let total = self.calls.total.as_secs_f64();
        let all = classes.iter().map(|(_, count)| count).sum();
        let help = "Duration of calls";
        let mut metric =
            page.0
                .encode_descriptor("call", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(total, all, &classes, None)
    }

    fn tools(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(
            ("tool_calls", "Completed calls of a tool", None),
            self.tools.iter().map(|tool| (named(tool), tool.calls)),
        )?;
        page.counters(
            (
                "tool_failures",
                "Calls of a tool that ended without a result",
                None,
            ),
            self.tools.iter().map(|tool| (named(tool), tool.failures)),
        )?;
        page.counters(
            (
                "tool_time",
                "Total duration of all calls of a tool",
                Some(Unit::Seconds),
            ),
            self.tools
                .iter()
                .map(|tool| (named(tool), tool.total.as_secs_f64())),
        )
    }

    fn states(&self, page: &mut Page<'_>) -> fmt::Result {
        let states = self.servers.iter().flat_map(|(id, server)| {
            PeerStatus::ALL.map(|status| {
                let labels = [("server", id.as_str()), ("status", status.as_str())];
                (labels, u64::from(server.status == status))
            })
        });
        page.gauges(
            (
                "server_status",
                "Status of a server: 1 for its current status, 0 for the other statuses",
                None,
            ),
            states,
        )?;
        page.gauges(
            ("server_processes", "Processes of a server", None),
            self.each(|server| server.processes.len() as u64),
        )?;
        page.gauges(
            ("server_in_flight", "Calls of a server in progress", None),
            self.each(|server| server.in_flight as u64),
        )?;
        let ready = self
            .servers
            .iter()
            .filter(|(_, server)| server.uptime.is_some());
        let ready = ready.map(|(id, server)| {
            let uptime = server.uptime.unwrap_or_default();
            ([("server", id.as_str())], uptime.as_secs_f64())
        });
        page.seconds(("server_uptime", "Time since a server became ready"), ready)
    }

    fn traffic(&self, page: &mut Page<'_>) -> fmt::Result {
        let calls = self.servers.iter().flat_map(|(id, server)| {
            let ends = server.calls.by_end();
            ends.map(|(end, count)| ([("server", id.as_str()), ("end", end)], count))
        });
        page.counters(
            ("server_calls", "Calls of a server, by outcome", None),
            calls,
        )?;
        page.counters(
            ("server_restarts", "Restarts of a server", None),
            self.each(|server| server.restarts),
        )?;
        page.counters(
            ("server_failed_starts", "Failed starts of a server", None),
            self.each(|server| server.failed_starts),
        )?;
        page.counters(
            (
                "server_junk_lines",
                "Lines on standard output that are not messages",
                None,
            ),
            self.each(|server| server.junk_lines),
        )?;
        page.counters(
            ("server_sent", "Parameters sent", Some(Unit::Bytes)),
            self.each(|server| server.bytes_out),
        )?;
        page.counters(
            ("server_received", "Results received", Some(Unit::Bytes)),
            self.each(|server| server.bytes_in),
        )
    }

    fn times(&self, page: &mut Page<'_>) -> fmt::Result {
        let quantiles = self.servers.iter().flat_map(|(id, server)| {
            let times = server.latency;
            [("0.5", times.p50), ("0.9", times.p90), ("0.99", times.p99)].map(|(part, time)| {
                let labels = [("server", id.as_str()), ("quantile", part)];
                (labels, time.as_secs_f64())
            })
        });
        page.seconds(
            (
                "server_latency",
                "Latency of the last 1024 calls of a server",
            ),
            quantiles,
        )?;
        page.seconds(
            (
                "server_latency_mean",
                "Mean of the last 100 calls of a server",
            ),
            self.each(|server| server.latency.mean.as_secs_f64()),
        )?;
        page.seconds(
            (
                "server_queue_mean",
                "Mean wait of the last 100 calls before they were sent",
            ),
            self.each(|server| server.latency.queue.as_secs_f64()),
        )
    }

    /// A figure of each server.
    fn each<V>(
        &self,
        figure: impl Fn(&PeerReport) -> V,
    ) -> impl Iterator<Item = ([(&'static str, &str); 1], V)> {
        let servers = self.servers.iter();
        servers.map(move |(id, server)| ([("server", id.as_str())], figure(server)))
    }
}

/// The label of a tool.
fn named(tool: &ToolReport) -> [(&'static str, &str); 1] {
    [("tool", &tool.name)]
}

/// What is written so far.
struct Page<'e>(DescriptorEncoder<'e>);

/// Name, help and unit of a metric.
type Title = (&'static str, &'static str, Option<Unit>);

impl Page<'_> {
    fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        (name, help, unit): Title,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut metric =
            self.0
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in series {
            let mut one = metric.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        (name, help, unit): Title,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in series {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn seconds<L: EncodeLabelSet>(
        &mut self,
        (name, help): (&'static str, &'static str),
        series: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        self.gauges((name, help, Some(Unit::Seconds)), series)
    }
}
