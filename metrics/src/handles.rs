//! Handles on metrics that know their number of labels: a missing value does not compile.

use std::time::Duration;

use prometheus::{CounterVec, GaugeVec, HistogramVec};

#[derive(Debug)]
pub(crate) struct Counter<const LABELS: usize>(pub(crate) CounterVec);

/// A total that the kernel or another module counts. Set in every scrape, or absent from it.
#[derive(Debug)]
pub(crate) struct Total<const LABELS: usize>(pub(crate) CounterVec);

/// A number. Set in every scrape, or absent from it.
#[derive(Debug)]
pub(crate) struct Gauge<const LABELS: usize>(pub(crate) GaugeVec);

/// A histogram of durations.
#[derive(Debug)]
pub(crate) struct Durations<const LABELS: usize>(pub(crate) HistogramVec);

impl<const LABELS: usize> Counter<LABELS> {
    pub(crate) fn add_one(&self, labels: [&str; LABELS]) {
        self.0.with_label_values(&labels).inc();
    }

    pub(crate) fn add(&self, labels: [&str; LABELS], count: u64) {
        self.0.with_label_values(&labels).inc_by(float(count));
    }

    pub(crate) fn add_seconds(&self, labels: [&str; LABELS], duration: Duration) {
        self.0.with_label_values(&labels).inc_by(duration.as_secs_f64());
    }

    /// Shows the counter as 0, so that the first event is a visible change (Prometheus,
    /// "Instrumentation", "Avoid missing metrics").
    pub(crate) fn begin(&self, labels: [&str; LABELS]) {
        drop(self.0.with_label_values(&labels));
    }
}

impl<const LABELS: usize> Total<LABELS> {
    pub(crate) fn set(&self, labels: [&str; LABELS], count: f64) {
        let counter = self.0.with_label_values(&labels);
        counter.reset();
        // The source may report anything, and a counter panics on a negative number.
        counter.inc_by(count.max(0.0));
    }
}

impl<const LABELS: usize> Gauge<LABELS> {
    pub(crate) fn set(&self, labels: [&str; LABELS], value: f64) {
        self.0.with_label_values(&labels).set(value);
    }

    pub(crate) fn set_count(&self, labels: [&str; LABELS], value: u64) {
        self.set(labels, float(value));
    }
}

impl<const LABELS: usize> Durations<LABELS> {
    pub(crate) fn observe(&self, labels: [&str; LABELS], duration: Duration) {
        self.0.with_label_values(&labels).observe(duration.as_secs_f64());
    }
}

/// Prometheus has no other numbers.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and close to it above")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}
