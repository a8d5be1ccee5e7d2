//! The control sequences that draw an image, and how a terminal's protocol is found.

use super::*;

#[test]
fn kitty_receives_a_large_image_in_chunks() {
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.extend((0..=u8::MAX).cycle().take(16 << 10));
    let text = ImageProtocol::Kitty.draw(&image).unwrap();
    let chunks: Vec<_> = text.trim_end().split_terminator("\x1b\\").collect();
    assert!(chunks.len() > 2);
    let mut data = String::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let (control, part) = chunk.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap();
        assert_eq!(control.starts_with("a=T,f=100,q=2,"), number == 0, "{control}");
        assert_eq!(control.ends_with("m=1"), number + 1 < chunks.len(), "{control}");
        assert!(part.len() <= 4096);
        data.push_str(part);
    }
    assert_eq!(STANDARD.decode(data).unwrap(), image);
}

#[test]
fn iterm2_receives_an_image_of_any_type_whole() {
    let text = ImageProtocol::ITerm2.draw(b"GIF89a").unwrap();
    assert_eq!(text, "\x1b]1337;File=inline=1;preserveAspectRatio=1;size=6:R0lGODlh\x07\n");
}

#[test]
fn images_that_cannot_be_drawn_are_refused_with_the_reason() {
    let draw = |protocol: ImageProtocol, image: &[u8]| protocol.draw(image).unwrap_err();
    assert!(matches!(draw(ImageProtocol::Kitty, b"GIF89a"), DrawError::NotPng));
    assert!(matches!(draw(ImageProtocol::Kitty, &vec![0; MAX_BYTES + 1]), DrawError::TooLarge));
    assert!(matches!(draw(ImageProtocol::Files, b""), DrawError::NoProtocol));
}

#[test]
fn terminals_are_recognised_by_the_variables_they_set() {
    use ImageProtocol::{Files, ITerm2, Kitty};
    let protocol_of = |variables: &[(&str, &str)]| {
        ImageProtocol::of_terminal(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    let xterm = ("TERM", "xterm-256color");
    assert_eq!(protocol_of(&[("TERM", "xterm-kitty")]), Kitty);
    assert_eq!(protocol_of(&[xterm, ("KITTY_WINDOW_ID", "1")]), Kitty);
    assert_eq!(protocol_of(&[xterm, ("TERM_PROGRAM", "WezTerm")]), Kitty);
    assert_eq!(protocol_of(&[xterm, ("TERM_PROGRAM", "iTerm.app")]), ITerm2);
    assert_eq!(protocol_of(&[xterm, ("TERM_PROGRAM", "vscode")]), ITerm2);
    assert_eq!(protocol_of(&[("TERM", "linux")]), Files);
    assert_eq!(protocol_of(&[]), Files);
    assert_eq!(protocol_of(&[xterm]), Files);
    assert_eq!(protocol_of(&[("TERM", "tmux-256color"), ("KITTY_WINDOW_ID", "1")]), Files);
    assert_eq!(protocol_of(&[xterm, ("TMUX", "/x"), ("TERM_PROGRAM", "iTerm.app")]), Files);
}
