//! The order in which an execution printed, showed, returned and raised. The content is elsewhere:
//! a place says where.

use vivarium_api_types::Place;
use vivarium_protocol::message::Stream;
use vivarium_protocol::outcome::{Display, DisplayKind};

/// The most parts of the streams that are told apart: so often may code change between them. What
/// it prints afterwards joins the last part of its stream.
const MAX_TEXTS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Order {
    places: Vec<Place>,
    texts: usize,
    stdout: Printed,
    stderr: Printed,
    displays: usize,
    images: usize,
    video_frames: usize,
}

#[derive(Debug, Default)]
struct Printed {
    /// Bytes that have a place.
    bytes: usize,
    /// The last place with some of them.
    last: Option<usize>,
}

impl Order {
    /// The text of a stream has grown to so many bytes.
    pub(super) fn printed(&mut self, stream: Stream, bytes: usize) {
        let printed = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let start = std::mem::replace(&mut printed.bytes, bytes);
        if start == bytes {
            return;
        }
        let joins = |last: &usize| *last + 1 == self.places.len() || self.texts >= MAX_TEXTS;
        if let Some(last) = printed.last.filter(joins)
            && let Some(Place::Text { end, .. }) = self.places.get_mut(last)
        {
            *end = bytes;
            return;
        }
        printed.last = Some(self.places.len());
        self.texts += 1;
        self.places.push(Place::Text { stream, start, end: bytes });
    }

    /// Something was shown. An update has the place of what it replaces.
    pub(super) fn shown(&mut self, display: &Display) {
        let mut next = |count: &mut usize, place: fn(usize) -> Place| {
            self.places.push(place(*count));
            *count += 1;
        };
        match display.kind {
            DisplayKind::Display => next(&mut self.displays, Place::Display),
            DisplayKind::Image | DisplayKind::VideoFrame => {
                for _ in super::shown::pictures(display) {
                    if display.kind == DisplayKind::Image {
                        next(&mut self.images, Place::Image);
                    } else {
                        next(&mut self.video_frames, Place::VideoFrame);
                    }
                }
            }
            DisplayKind::Update => {}
            DisplayKind::Clear => self.clear(),
        }
    }

    pub(super) fn returned(&mut self) {
        self.places.push(Place::Result);
    }

    pub(super) fn raised(&mut self) {
        self.places.push(Place::Exception);
    }

    /// Forgets what came so far, printed text too, as notebooks do; but no frames.
    fn clear(&mut self) {
        self.places.retain(|place| matches!(place, Place::VideoFrame(_)));
        self.texts = 0;
        self.stdout.last = None;
        self.stderr.last = None;
        self.displays = 0;
        self.images = 0;
    }

    pub(super) const fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
    }

    pub(super) fn finish(self) -> Vec<Place> {
        self.places
    }
}

#[cfg(test)]
mod tests {
    use vivarium_protocol::outcome::MimePart;

    use super::*;
    use Stream::{Stderr, Stdout};

    fn show(kind: DisplayKind, pictures: usize) -> Display {
        let part = MimePart { mime_type: "image/png".into(), data: vec![] };
        Display { kind, id: None, mime: vec![part; pictures] }
    }

    const fn text(stream: Stream, start: usize, end: usize) -> Place {
        Place::Text { stream, start, end }
    }

    #[test]
    fn chunks_of_one_stream_are_one_place_until_something_else_comes() {
        let mut order = Order::default();
        order.printed(Stdout, 1);
        order.printed(Stdout, 3);
        order.printed(Stderr, 2);
        order.printed(Stderr, 2);
        order.printed(Stdout, 4);
        order.shown(&show(DisplayKind::Update, 1));
        order.printed(Stdout, 5);
        order.shown(&show(DisplayKind::Display, 1));
        order.shown(&show(DisplayKind::Image, 2));
        order.printed(Stdout, 6);
        order.returned();
        let expected = [
            text(Stdout, 0, 3),
            text(Stderr, 0, 2),
            text(Stdout, 3, 5),
            Place::Display(0),
            Place::Image(0),
            Place::Image(1),
            text(Stdout, 5, 6),
            Place::Result,
        ];
        assert_eq!(order.finish(), expected);
    }

    #[test]
    fn clearing_forgets_printed_text_too_but_no_frames() {
        let mut order = Order::default();
        order.printed(Stdout, 1);
        order.shown(&show(DisplayKind::Display, 1));
        order.shown(&show(DisplayKind::VideoFrame, 1));
        order.shown(&show(DisplayKind::Clear, 0));
        order.printed(Stdout, 3);
        order.shown(&show(DisplayKind::Display, 1));
        let expected = [Place::VideoFrame(0), text(Stdout, 1, 3), Place::Display(0)];
        assert_eq!(order.finish(), expected);
    }

    #[test]
    fn changing_between_streams_a_million_times_stays_bounded() {
        let mut order = Order::default();
        for bytes in 1..=1_000_000 {
            order.printed(Stdout, bytes);
            order.printed(Stderr, bytes);
        }
        assert!(order.bytes() < 1 << 20);
        let places = order.finish();
        assert_eq!(places.len(), MAX_TEXTS);
        let end = |place: &Place| matches!(place, Place::Text { end: 1_000_000, .. });
        assert!(places.iter().rev().take(2).all(end));
    }
}
