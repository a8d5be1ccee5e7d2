//! Declares metrics for Prometheus and for the documentation in one step.

use prometheus::core::Collector;
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry};

use crate::handles::{Counter, Durations, Gauge, Total};
use crate::{Declaration, Kind, MetricsError};

/// Upper ends of the buckets of durations, in seconds: 0.1 ms to 60 s, in steps of 2 to 2.5.
const BUCKETS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// Forgets the values of the last scrape.
pub(crate) type Reset = Box<dyn Fn() + Send + Sync>;

pub(crate) type Labels<const COUNT: usize> = &'static [&'static str; COUNT];

#[derive(Default)]
pub(crate) struct Register {
    pub(crate) registry: Registry,
    pub(crate) declarations: Vec<Declaration>,
    pub(crate) resets: Vec<Reset>,
    family: &'static str,
}

impl Register {
    /// Begins a family.
    pub(crate) const fn family(&mut self, title: &'static str) {
        self.family = title;
    }

    /// A counter of events.
    pub(crate) fn counter<const N: usize>(
        &mut self,
        name: &'static str,
        labels: Labels<N>,
        help: &'static str,
    ) -> Result<Counter<N>, MetricsError> {
        self.declare(name, Kind::Counter, labels, help, |opts| CounterVec::new(opts, labels))
            .map(Counter)
    }

    /// A counter that is read at each scrape.
    pub(crate) fn total<const N: usize>(
        &mut self,
        name: &'static str,
        labels: Labels<N>,
        help: &'static str,
    ) -> Result<Total<N>, MetricsError> {
        let vec =
            self.declare(name, Kind::Counter, labels, help, |opts| CounterVec::new(opts, labels))?;
        let own = vec.clone();
        self.resets.push(Box::new(move || own.reset()));
        Ok(Total(vec))
    }

    /// A gauge, which is read at each scrape.
    pub(crate) fn gauge<const N: usize>(
        &mut self,
        name: &'static str,
        labels: Labels<N>,
        help: &'static str,
    ) -> Result<Gauge<N>, MetricsError> {
        let vec =
            self.declare(name, Kind::Gauge, labels, help, |opts| GaugeVec::new(opts, labels))?;
        let own = vec.clone();
        self.resets.push(Box::new(move || own.reset()));
        Ok(Gauge(vec))
    }

    /// A histogram of durations.
    pub(crate) fn durations<const N: usize>(
        &mut self,
        name: &'static str,
        labels: Labels<N>,
        help: &'static str,
    ) -> Result<Durations<N>, MetricsError> {
        self.declare(name, Kind::Histogram, labels, help, |opts| {
            HistogramVec::new(HistogramOpts::from(opts).buckets(BUCKETS.to_vec()), labels)
        })
        .map(Durations)
    }

    fn declare<C: Collector + Clone + 'static>(
        &mut self,
        name: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        help: &'static str,
        make: impl FnOnce(Opts) -> prometheus::Result<C>,
    ) -> Result<C, MetricsError> {
        let failed = |source| MetricsError::Declare { name, source };
        let made = make(Opts::new(name, help)).map_err(failed)?;
        self.registry.register(Box::new(made.clone())).map_err(failed)?;
        self.declarations.push(Declaration { family: self.family, name, kind, labels, help });
        Ok(made)
    }
}
