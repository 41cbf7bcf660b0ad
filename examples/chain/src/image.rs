//! PNG files as arrays of `f32` RGBA in 0..=1, and back as 8-bit RGBA.
//!
//! All of PNG's colour types and depths are read. Sizes are checked before anything is allocated.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Decoder, Encoder, Limits, Transformations};

/// Channels of a pixel.
pub const CHANNELS: usize = 4;

/// An image: `height * width * 4` values, row by row, RGBA in 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The values.
    pub pixels: Vec<f32>,
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file system said no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is no PNG image, or a damaged one.
    #[error("not a readable PNG image: {0}")]
    Decode(#[from] png::DecodingError),
    /// It could not be encoded.
    #[error("cannot encode: {0}")]
    Encode(#[from] png::EncodingError),
    /// It is larger than allowed.
    #[error("{width} x {height} pixels are more than the {limit} that are allowed (see --max-pixels)")]
    TooLarge {
        /// Pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Most pixels.
        limit: u64,
    },
}

impl Image {
    /// Reads a PNG file of at most `max_pixels`.
    ///
    /// # Errors
    /// [`ImageError::TooLarge`] by the header alone; what the file system or decoder says.
    pub fn load(path: &Path, max_pixels: u64) -> Result<Self, ImageError> {
        // A decoded pixel has 8 bytes at most; the decoder's own buffers come on top.
        let bytes =
            usize::try_from(max_pixels.saturating_mul(8).saturating_add(1 << 20)).unwrap_or(usize::MAX);
        let mut decoder = Decoder::new_with_limits(BufReader::new(File::open(path)?), Limits { bytes });
        decoder.set_transformations(Transformations::EXPAND);
        let (width, height) = decoder.read_header_info()?.size();
        if u64::from(width) * u64::from(height) > max_pixels {
            return Err(ImageError::TooLarge { width, height, limit: max_pixels });
        }
        let mut reader = decoder.read_info()?;
        let too_large = || ImageError::TooLarge { width, height, limit: max_pixels };
        let mut bytes = vec![0; reader.output_buffer_size().ok_or_else(too_large)?];
        let frame = reader.next_frame(&mut bytes)?;
        bytes.truncate(frame.buffer_size());
        let samples = match frame.bit_depth {
            BitDepth::Sixteen => bytes
                .chunks_exact(2)
                .map(|pair| f32::from(u16::from_be_bytes([pair[0], pair[1]])) / f32::from(u16::MAX))
                .collect(),
            _ => bytes.iter().map(|byte| f32::from(*byte) / f32::from(u8::MAX)).collect(),
        };
        Ok(Image { width, height, pixels: to_rgba(samples, frame.color_type) })
    }

    /// Writes an 8-bit RGBA PNG file, whole or not at all: to a file beside it first, then renamed.
    ///
    /// # Errors
    /// What the file system or encoder says. Nothing is left behind.
    pub fn save(&self, path: &Path) -> Result<(), ImageError> {
        let partial = partial_name(path);
        let written = self.write(&partial).and_then(|()| Ok(fs::rename(&partial, path)?));
        if written.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_file(&partial);
        }
        written
    }

    fn write(&self, path: &Path) -> Result<(), ImageError> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut encoder = Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(ColorType::Rgba);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.to_bytes())?;
        writer.finish()?;
        file.flush()?;
        Ok(())
    }

    /// The pixels as 8-bit RGBA, rounded to the nearest.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pixels.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8).collect()
    }
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

fn to_rgba(samples: Vec<f32>, color: ColorType) -> Vec<f32> {
    match color {
        ColorType::Rgba => samples,
        ColorType::Rgb => samples.chunks_exact(3).flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 1.0]).collect(),
        ColorType::GrayscaleAlpha => {
            samples.chunks_exact(2).flat_map(|pair| [pair[0], pair[0], pair[0], pair[1]]).collect()
        }
        // A palette was expanded by the decoder.
        ColorType::Grayscale | ColorType::Indexed => {
            samples.into_iter().flat_map(|grey| [grey, grey, grey, 1.0]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_rgba() {
        assert_eq!(to_rgba(vec![0.5], ColorType::Grayscale), [0.5, 0.5, 0.5, 1.0]);
        assert_eq!(to_rgba(vec![0.5, 0.2], ColorType::GrayscaleAlpha), [0.5, 0.5, 0.5, 0.2]);
        assert_eq!(to_rgba(vec![0.1, 0.2, 0.3], ColorType::Rgb), [0.1, 0.2, 0.3, 1.0]);
    }

    #[test]
    fn values_are_rounded_and_clamped() {
        let image = Image { width: 1, height: 1, pixels: vec![-1.0, 0.5, 1.0, 2.0] };
        assert_eq!(image.to_bytes(), [0, 128, 255, 255]);
    }
}
