//! Icons of definitions. The SDK for PHP refuses a list for the sake of one icon that it cannot show.

use orchestra_wire::RawJson;

use super::{Fixed, Notes, text};

/// Location of an image: a URL of the network, or a `data:` URL with the image.
pub(super) fn source(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    let is_known = |source: &str| {
        let schemes = ["https://", "http://", "data:"];
        schemes.iter().any(|scheme| source.starts_with(scheme))
    };
    match text(value).is_some_and(|source| is_known(&source)) {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

/// A size in pixels, such as `48x48`, or `any`.
pub(super) fn size(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_size = |size: &str| {
        let sides = size.split_once('x');
        size == "any" || sides.is_some_and(|(width, height)| is_number(width) && is_number(height))
    };
    match text(value).is_some_and(|size| is_size(&size)) {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}
