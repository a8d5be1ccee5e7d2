//! What an execution has shown, with updates applied and what was cleared forgotten.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{Display as DisplayInfo, EncodedImage};
use vivarium_protocol::outcome::{Display, DisplayKind, MimePart};

use super::mime;

/// What a display takes besides its content, in bytes.
const DISPLAY_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Shown {
    displays: Vec<Arc<Display>>,
    images: Vec<Arc<Display>>,
    video_frames: Vec<Arc<Display>>,
}

/// Bytes of a display. Clearing takes none: it has to be possible when all is used up.
pub(super) fn bytes(display: &Display) -> usize {
    let own = if display.kind == DisplayKind::Clear { 0 } else { DISPLAY_BYTES };
    mime::bytes(&display.mime) + display.id.as_ref().map_or(0, String::len) + own
}

impl Shown {
    /// Bytes that it takes to show this. What takes the place of several counts for each: in the
    /// outcome it is there as often.
    pub(super) fn bytes_for(&self, display: &Display) -> usize {
        let places = match display.kind {
            DisplayKind::Update => self.places(display).count().max(1),
            _ => 1,
        };
        bytes(display).saturating_mul(places)
    }

    /// Those that an update is for.
    fn places(&self, display: &Display) -> impl Iterator<Item = &Arc<Display>> {
        self.displays.iter().filter(|shown| shown.id.is_some() && shown.id == display.id)
    }

    /// Takes a display in, and returns how many bytes of earlier ones are forgotten for it.
    pub(super) fn add(&mut self, display: &Arc<Display>) -> usize {
        match display.kind {
            DisplayKind::Display => self.displays.push(Arc::clone(display)),
            DisplayKind::Image => self.images.push(Arc::clone(display)),
            DisplayKind::VideoFrame => self.video_frames.push(Arc::clone(display)),
            DisplayKind::Update => return self.update(display),
            DisplayKind::Clear => {
                let cleared = self.displays.drain(..).chain(self.images.drain(..));
                return cleared.map(|gone| bytes(&gone)).sum::<usize>() + bytes(display);
            }
        }
        0
    }

    /// Puts it in the place of those with its id. There may be several: the same object can be
    /// displayed twice. If there is none nothing is shown, as in notebooks.
    fn update(&mut self, display: &Arc<Display>) -> usize {
        if self.places(display).next().is_none() {
            return bytes(display);
        }
        let places =
            self.displays.iter_mut().filter(|shown| shown.id.is_some() && shown.id == display.id);
        places.map(|place| bytes(std::mem::replace(place, Arc::clone(display)).as_ref())).sum()
    }

    pub(super) fn displays(&self) -> Vec<DisplayInfo> {
        let describe = |display: &Arc<Display>| DisplayInfo {
            id: display.id.clone(),
            sizes: mime::sizes(&display.mime),
            mime: mime::bundle(&display.mime),
        };
        self.displays.iter().map(describe).collect()
    }

    pub(super) fn images(&self) -> Vec<EncodedImage> {
        images(&self.images)
    }

    pub(super) fn video_frames(&self) -> Vec<EncodedImage> {
        images(&self.video_frames)
    }
}

/// The parts of an image or frame that are pictures.
pub(super) fn pictures(display: &Display) -> impl Iterator<Item = &MimePart> {
    display.mime.iter().filter(|part| part.mime_type.starts_with("image/"))
}

fn images(displays: &[Arc<Display>]) -> Vec<EncodedImage> {
    let images = displays.iter().flat_map(|display| pictures(display));
    images
        .map(|part| EncodedImage {
            mime_type: part.mime_type.clone(),
            size_bytes: part.data.len() as u64,
            data: STANDARD.encode(&part.data),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(displays: &[(DisplayKind, &str, &str)]) -> (Shown, usize) {
        let (mut shown, mut bytes_kept) = (Shown::default(), 0);
        for (kind, id, text) in displays {
            let mime_type = match kind {
                DisplayKind::Image | DisplayKind::VideoFrame => "image/png",
                _ => "text/plain",
            };
            let part = MimePart { mime_type: mime_type.into(), data: text.as_bytes().to_vec() };
            let id = Some(*id).filter(|id| !id.is_empty()).map(str::to_owned);
            let display = Arc::new(Display { kind: *kind, id, mime: vec![part] });
            bytes_kept += shown.bytes_for(&display);
            bytes_kept -= shown.add(&display);
        }
        (shown, bytes_kept)
    }

    fn texts(shown: &Shown) -> Vec<String> {
        let text = |display: &DisplayInfo| display.mime.get("text/plain").unwrap().clone();
        shown.displays().iter().map(text).collect()
    }

    use DisplayKind::{Clear, Display as Show, Image, Update, VideoFrame};

    #[test]
    fn displays_are_kept_in_order_and_updated_in_place() {
        let (shown, _) = shown(&[
            (Show, "a", "1"),
            (Show, "", "2"),
            (Show, "a", "3"),
            (Update, "a", "4"),
            (Update, "unknown", "5"),
            (Update, "", "6"),
        ]);
        assert_eq!(texts(&shown), ["4", "2", "4"]);
        let ids: Vec<_> = shown.displays().into_iter().map(|display| display.id).collect();
        assert_eq!(ids, [Some("a".to_owned()), None, Some("a".to_owned())]);
    }

    #[test]
    fn a_thousand_updates_take_no_more_than_one() {
        let mut displays = vec![(Show, "a", "0")];
        displays.resize(1000, (Update, "a", "1"));
        let (updated, bytes_kept) = shown(&displays);
        assert_eq!(texts(&updated), ["1"]);
        assert_eq!(bytes_kept, shown(&[(Show, "a", "0")]).1);
    }

    #[test]
    fn an_update_counts_for_each_place_it_takes() {
        let large = "x".repeat(1000);
        let twice = [(Show, "a", "0"), (Show, "a", "0"), (Update, "a", large.as_str())];
        let (updated, bytes_kept) = shown(&twice);
        assert_eq!(texts(&updated), [large.as_str(), large.as_str()]);
        let (_, of_two) = shown(&[(Show, "a", large.as_str()), (Show, "a", large.as_str())]);
        assert_eq!(bytes_kept, of_two);
    }

    #[test]
    fn clearing_forgets_displays_and_images_but_no_frames() {
        let (shown, bytes_kept) = shown(&[
            (Show, "", "1"),
            (Image, "", "2"),
            (VideoFrame, "", "3"),
            (Clear, "", ""),
            (Image, "", "4"),
            (Show, "", "5"),
        ]);
        assert_eq!(texts(&shown), ["5"]);
        let data =
            |images: Vec<EncodedImage>| images.into_iter().map(|i| i.data).collect::<Vec<_>>();
        assert_eq!(data(shown.images()), ["NA=="]);
        assert_eq!(data(shown.video_frames()), ["Mw=="]);
        let kept = self::shown(&[(VideoFrame, "", "3"), (Image, "", "4"), (Show, "", "5")]).1;
        assert_eq!(bytes_kept, kept);
    }
}
