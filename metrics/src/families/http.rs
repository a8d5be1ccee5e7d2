//! Requests to the API.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations};
use crate::register::Register;

/// Methods that label requests; all others are `other`.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];

/// Why the daemon closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It was silent, and another connection needed its place.
    Crowded,
    /// The listener was full.
    Refused,
    /// Its client was too slow to read an answer.
    Slow,
    /// It was still open some seconds after the end of a drain.
    Drained,
}

impl Closed {
    const ALL: [Self; 4] = [Self::Crowded, Self::Refused, Self::Slow, Self::Drained];

    const fn name(self) -> &'static str {
        match self {
            Self::Crowded => "crowded",
            Self::Refused => "refused",
            Self::Slow => "slow",
            Self::Drained => "drained",
        }
    }
}

#[derive(Debug)]
pub struct Http {
    closed: Counter<1>,
    requests: Counter<3>,
    duration: Durations<2>,
}

impl Family for Http {
    const TITLE: &'static str = "HTTP";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let closed = register.counter(
            "vivarium_http_connections_closed_total",
            &["reason"],
            "Connections that the daemon closed: `crowded`, silent while another needed the \
             place; `refused`, no place was left; `slow`, the client took too little of a \
             response; `drained`, still open some seconds after the end of a drain.",
        )?;
        for reason in Closed::ALL {
            closed.begin([reason.name()]);
        }
        Ok(Self {
            closed,
            requests: register.counter(
                "vivarium_http_requests_total",
                &["route", "method", "status"],
                "Requests answered, by the route's template (`unknown` if there is none), method \
                 (`other` if unusual) and class of status (`2xx`).",
            )?,
            duration: register.durations(
                "vivarium_http_request_duration_seconds",
                &["route", "method"],
                "Time from a request's head to its response, including waiting and running code.",
            )?,
        })
    }
}

impl Http {
    pub fn closed(&self, reason: Closed) {
        self.closed.add_one([reason.name()]);
    }

    /// `route` is the template that matched, never the path.
    pub fn answered(&self, route: Option<&str>, method: &str, status: u16, duration: Duration) {
        let route = route.unwrap_or("unknown");
        // A client can invent methods.
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        let class = match status {
            100..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        self.requests.add_one([route, method, class]);
        self.duration.observe([route, method], duration);
    }
}
