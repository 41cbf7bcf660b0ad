//! PNG images: reading any kind to RGBA in `f32`, and writing 8-bit RGBA.
//!
//! Values are used as they stand in the file: gamma and colour profiles are not looked at. Not here: whole files
//! and folders (`files.rs`).

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use png::{BitDepth, ColorType, Decoder, Encoder, Limits, Transformations};

use crate::error::ImageError;
use crate::files::write_whole;
use crate::kernels::Size;

/// An image in memory: RGBA, values 0 to 1, colours not multiplied by alpha.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// In pixels.
    pub size: Size,
    /// Row by row from the top, four elements a pixel.
    pub pixels: Vec<f32>,
}

/// Bytes of a pixel of four samples with 16 bits.
const LARGEST_PIXEL: usize = 8;

/// Reads a PNG image with 1 to 16 bits a sample, grey, grey with alpha, RGB, RGBA or with a palette. Of an animation it
/// takes the first frame.
///
/// # Errors
/// [`ImageError::Open`], [`ImageError::Decode`], [`ImageError::NoMemory`], and [`ImageError::TooManyPixels`] if the
/// header says so, before anything is allocated for the pixels.
pub fn load(path: &Path, max_pixels: u64) -> Result<Image, ImageError> {
    let file = File::open(path).map_err(ImageError::Open)?;
    let mut decoder = Decoder::new(BufReader::new(file));
    let header = decoder.read_header_info().map_err(ImageError::Decode)?;
    let size = Size::new(header.width, header.height);
    if size.pixels() > max_pixels {
        return Err(ImageError::TooManyPixels { size, limit: max_pixels });
    }
    // The decoder limits what it allocates itself, and a row of a wide image is more than it allows.
    let row = usize::try_from(size.width).unwrap_or(usize::MAX).saturating_mul(2 * LARGEST_PIXEL);
    decoder.set_limits(Limits { bytes: Limits::default().bytes.saturating_add(row) });
    // With these there are two kinds left: grey with alpha, and RGBA; each with 8 or 16 bits.
    decoder.set_transformations(Transformations::EXPAND | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(ImageError::Decode)?;
    let length = reader.output_buffer_size().ok_or(ImageError::NoMemory(size.pixels()))?;
    let mut bytes = reserve(length)?;
    bytes.resize(length, 0);
    let frame = reader.next_frame(&mut bytes).map_err(ImageError::Decode)?;
    bytes.truncate(frame.buffer_size());
    let mut pixels = reserve(size.elements())?;
    let grey = match frame.color_type {
        ColorType::GrayscaleAlpha => true,
        ColorType::Rgba => false,
        other => return Err(unexpected(&format!("{other:?} after expansion"))),
    };
    match frame.bit_depth {
        BitDepth::Eight => {
            expand(bytes.iter().map(|byte| f32::from(*byte) / f32::from(u8::MAX)), grey, &mut pixels);
        }
        BitDepth::Sixteen => {
            let (samples, _) = bytes.as_chunks::<2>();
            let samples = samples.iter().map(|sample| u16::from_be_bytes(*sample));
            expand(samples.map(|sample| f32::from(sample) / f32::from(u16::MAX)), grey, &mut pixels);
        }
        other => return Err(unexpected(&format!("{other:?} bits after expansion"))),
    }
    Ok(Image { size, pixels })
}

/// Writes an image as 8-bit RGBA, completely or not at all.
///
/// # Errors
/// [`ImageError::Write`].
pub fn save(path: &Path, image: &Image) -> Result<(), ImageError> {
    write_whole(path, |writer| encode(writer, image))
        .map_err(|source| ImageError::Write { path: path.to_owned(), source })
}

/// The values in 8 bits, rounded; what is outside 0..=1 becomes the nearest that is inside.
pub fn quantized(pixels: &[f32]) -> Vec<u8> {
    // The cast saturates, and makes 0 of what is no number.
    pixels.iter().map(|value| (value * f32::from(u8::MAX)).round() as u8).collect()
}

fn encode(writer: &mut dyn Write, image: &Image) -> io::Result<()> {
    let mut encoder = Encoder::new(writer, image.size.width, image.size.height);
    encoder.set_color(ColorType::Rgba);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&quantized(&image.pixels))?;
    writer.finish()?;
    Ok(())
}

/// Makes RGBA of the samples.
fn expand(mut samples: impl Iterator<Item = f32>, grey: bool, pixels: &mut Vec<f32>) {
    if !grey {
        return pixels.extend(samples);
    }
    while let (Some(grey), Some(alpha)) = (samples.next(), samples.next()) {
        pixels.extend([grey, grey, grey, alpha]);
    }
}

/// Memory that may not be there: the size comes from a file.
fn reserve<T>(length: usize) -> Result<Vec<T>, ImageError> {
    let mut values = Vec::new();
    let bytes = (length as u64).saturating_mul(size_of::<T>() as u64);
    values.try_reserve_exact(length).map_err(|_| ImageError::NoMemory(bytes))?;
    Ok(values)
}

fn unexpected(what: &str) -> ImageError {
    ImageError::Decode(io::Error::new(io::ErrorKind::InvalidData, what).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    const HALF: f32 = 128.0 / 255.0;

    fn path(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("chain-image-{test}-{}.png", std::process::id()))
    }

    /// Writes a PNG file of one kind and loads it.
    fn loaded(
        test: &str,
        width: u32,
        data: &[u8],
        set: impl FnOnce(&mut Encoder<'_, &mut Vec<u8>>),
    ) -> Vec<f32> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, width, 1);
        set(&mut encoder);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        let path = path(test);
        fs::write(&path, bytes).unwrap();
        let image = load(&path, 100);
        fs::remove_file(&path).unwrap();
        let image = image.unwrap();
        assert_eq!(image.size, Size::new(width, 1));
        image.pixels
    }

    #[test]
    fn grey_is_expanded() {
        let pixels = loaded("grey", 2, &[0, 128], |encoder| encoder.set_color(ColorType::Grayscale));
        assert_eq!(pixels, [0.0, 0.0, 0.0, 1.0, HALF, HALF, HALF, 1.0]);
    }

    #[test]
    fn grey_of_one_bit_is_expanded() {
        let pixels = loaded("bit", 3, &[0b1010_0000], |encoder| {
            encoder.set_color(ColorType::Grayscale);
            encoder.set_depth(BitDepth::One);
        });
        assert_eq!(pixels, [[1.0; 4], [0.0, 0.0, 0.0, 1.0], [1.0; 4]].concat());
    }

    #[test]
    fn grey_with_alpha_is_expanded() {
        let pixels =
            loaded("grey-alpha", 1, &[255, 128], |encoder| encoder.set_color(ColorType::GrayscaleAlpha));
        assert_eq!(pixels, [1.0, 1.0, 1.0, HALF]);
    }

    #[test]
    fn rgb_gets_an_alpha() {
        let pixels = loaded("rgb", 1, &[0, 128, 255], |encoder| encoder.set_color(ColorType::Rgb));
        assert_eq!(pixels, [0.0, HALF, 1.0, 1.0]);
    }

    #[test]
    fn rgba_of_sixteen_bits_keeps_its_precision() {
        let pixels = loaded("rgba", 1, &[0, 0, 0, 1, 0x80, 0, 0xff, 0xff], |encoder| {
            encoder.set_color(ColorType::Rgba);
            encoder.set_depth(BitDepth::Sixteen);
        });
        assert_eq!(pixels, [0.0, 1.0 / 65535.0, 32768.0 / 65535.0, 1.0]);
    }

    #[test]
    fn grey_of_sixteen_bits_with_a_transparent_shade_is_expanded() {
        let pixels = loaded("shade", 2, &[0x80, 0, 0xff, 0xff], |encoder| {
            encoder.set_color(ColorType::Grayscale);
            encoder.set_depth(BitDepth::Sixteen);
            encoder.set_trns(&[0x80, 0][..]);
        });
        let half = 32768.0 / 65535.0;
        assert_eq!(pixels, [half, half, half, 0.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_palette_is_looked_up() {
        let pixels = loaded("palette", 2, &[0b0100_0000], |encoder| {
            encoder.set_color(ColorType::Indexed);
            encoder.set_depth(BitDepth::One);
            encoder.set_palette(&[255, 0, 0, 0, 128, 255][..]);
            encoder.set_trns(&[128][..]);
        });
        assert_eq!(pixels, [1.0, 0.0, 0.0, HALF, 0.0, HALF, 1.0, 1.0]);
    }

    #[test]
    fn what_is_saved_is_loaded_again() {
        let pixels: Vec<f32> = (0..24).map(|at| at as f32 / 255.0).collect();
        let image = Image { size: Size::new(2, 3), pixels };
        let path = path("again");
        save(&path, &image).unwrap();
        let again = load(&path, 6);
        fs::remove_file(&path).unwrap();
        assert_eq!(again.unwrap(), image);
    }

    #[test]
    fn a_large_image_is_refused_by_its_header() {
        let path = path("large");
        let size = Size::new(4, 4);
        save(&path, &Image { size, pixels: vec![0.0; size.elements()] }).unwrap();
        let refused = load(&path, 15);
        fs::remove_file(&path).unwrap();
        assert!(
            matches!(refused, Err(ImageError::TooManyPixels { size: found, limit: 15 }) if found == size)
        );
    }

    #[test]
    fn values_are_rounded_and_clamped() {
        let values = [0.0, 0.5 / 255.0, 0.49 / 255.0, 1.0, 1.5, -1.0, f32::NAN, f32::INFINITY];
        assert_eq!(quantized(&values), [0, 1, 0, 255, 255, 0, 0, 255]);
    }
}
