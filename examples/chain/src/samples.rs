//! Sample images, made by arithmetic alone: the same on every machine, free to ship, one of each kind of PNG.
//!
//! The folder `samples` of this package has the first four. Not here: other ways to images.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};

use crate::error::SetupError;
use crate::files::write_whole;
use crate::kernels::Size;

/// One sample, as the samples of a PNG file of its kind.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The file's name.
    pub name: String,
    /// In pixels.
    pub size: Size,
    color: ColorType,
    depth: BitDepth,
    /// Colours, and their alpha, for [`ColorType::Indexed`].
    palette: Option<(Vec<u8>, Vec<u8>)>,
    /// Packed as the file wants them.
    data: Vec<u8>,
}

/// Sample number `index`. Four subjects take turns; each time around they are larger.
pub fn sample(index: u32) -> Sample {
    // At most 128 pixels are added, so that thousands of samples are still small.
    let grown = 8 * (index / 4 % 17);
    let (subject, mut sample) = match index % 4 {
        0 => ("gradient", gradient(Size::new(64 + grown, 48 + grown))),
        1 => ("checkerboard", checkerboard(Size::new(40 + grown, 40 + grown))),
        2 => ("noise", noise(Size::new(32 + grown, 24 + grown), index)),
        _ => ("text", text(Size::new(64 + grown, 32 + grown), index)),
    };
    sample.name = format!("{index:04}-{subject}.png");
    sample
}

/// Writes `count` samples to `folder`, which is made if it is not there, until `stop` says so.
///
/// # Errors
/// [`SetupError::Generate`].
pub fn generate(folder: &Path, count: u32, stop: impl Fn() -> bool) -> Result<(), SetupError> {
    let failed = |path: &Path, source| SetupError::Generate { path: path.to_owned(), source };
    fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    for index in (0..count).take_while(|_| !stop()) {
        let sample = sample(index);
        let path = folder.join(&sample.name);
        write_whole(&path, |writer| sample.encode(writer)).map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

impl Sample {
    /// Writes it as a PNG file.
    ///
    /// # Errors
    /// Of the writer.
    pub fn encode(&self, writer: &mut dyn Write) -> io::Result<()> {
        let mut encoder = Encoder::new(writer, self.size.width, self.size.height);
        encoder.set_color(self.color);
        encoder.set_depth(self.depth);
        if let Some((colours, alpha)) = &self.palette {
            encoder.set_palette(colours.as_slice());
            encoder.set_trns(alpha.as_slice());
        }
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.data)?;
        writer.finish()?;
        Ok(())
    }

    fn new(size: Size, color: ColorType, depth: BitDepth, data: Vec<u8>) -> Sample {
        Sample { name: String::new(), size, color, depth, palette: None, data }
    }
}

/// Red grows to the right, green downwards, blue falls along the diagonal. RGB with 8 bits.
fn gradient(size: Size) -> Sample {
    let share = |part: u32, whole: u32| (part * 255 / (whole - 1)) as u8;
    let mut data = Vec::new();
    for (x, y) in places(size) {
        let diagonal = share(x + y, size.width + size.height - 1);
        data.extend([share(x, size.width), share(y, size.height), 255 - diagonal]);
    }
    Sample::new(size, ColorType::Rgb, BitDepth::Eight, data)
}

/// Squares of 5 pixels, dark blue and half-transparent yellow. A palette, 1 bit a pixel.
fn checkerboard(size: Size) -> Sample {
    const SQUARE: u32 = 5;
    let row = size.width.div_ceil(8) as usize;
    let mut data = vec![0_u8; row * size.height as usize];
    for (x, y) in places(size) {
        if (x / SQUARE + y / SQUARE) % 2 == 1 {
            data[y as usize * row + x as usize / 8] |= 0x80 >> (x % 8);
        }
    }
    let palette = Some((vec![20, 30, 90, 240, 220, 60], vec![255, 128]));
    Sample { palette, ..Sample::new(size, ColorType::Indexed, BitDepth::One, data) }
}

/// Every sample at random, alpha too. RGBA with 16 bits.
fn noise(size: Size, seed: u32) -> Sample {
    let mut random = Random(seed);
    let mut data = Vec::new();
    for _ in 0..size.pixels() * 4 {
        data.extend((random.next() as u16).to_be_bytes());
    }
    Sample::new(size, ColorType::Rgba, BitDepth::Sixteen, data)
}

/// Lines of signs that look like text from afar: black on transparent grey. Grey with alpha, 8 bits.
fn text(size: Size, seed: u32) -> Sample {
    // A sign is 3 x 5 dots of 2 pixels, in a cell with a dot's distance to the next.
    const DOT: u32 = 2;
    const CELL: (u32, u32) = (4 * DOT, 6 * DOT);
    let columns = size.width / CELL.0 + 1;
    let mut random = Random(seed);
    let signs: Vec<u32> = (0..columns * (size.height / CELL.1 + 1)).map(|_| random.next()).collect();
    let mut data = Vec::new();
    for (x, y) in places(size) {
        let sign = signs[(y / CELL.1 * columns + x / CELL.0) as usize];
        let (column, row) = (x % CELL.0 / DOT, y % CELL.1 / DOT);
        let inked = column < 3 && row < 5 && sign >> (row * 3 + column) & 1 == 1;
        data.extend(if inked { [0, 255] } else { [200, 64] });
    }
    Sample::new(size, ColorType::GrayscaleAlpha, BitDepth::Eight, data)
}

/// All places of a picture, row by row.
fn places(size: Size) -> impl Iterator<Item = (u32, u32)> {
    (0..size.height).flat_map(move |y| (0..size.width).map(move |x| (x, y)))
}

/// A linear congruential generator with the constants of "Numerical Recipes". Fixed, so that samples never change.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The low bits repeat soon.
        self.0 >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;

    #[test]
    fn the_shipped_samples_are_the_first_four() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
        let own = std::env::temp_dir().join(format!("chain-samples-{}", std::process::id()));
        generate(&own, 4, || false).unwrap();
        for index in 0..4 {
            let sample = sample(index);
            let shipped = image::load(&folder.join(&sample.name), 1 << 20).unwrap();
            // Pixels, not bytes: another version of the encoder may compress otherwise.
            assert_eq!(shipped, image::load(&own.join(&sample.name), 1 << 20).unwrap(), "{}", sample.name);
            assert!(sample.size.width <= 64 && sample.size.height <= 64);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn subjects_take_turns_and_grow() {
        assert_eq!(sample(0).name, "0000-gradient.png");
        assert_eq!(sample(7).name, "0007-text.png");
        assert_eq!(sample(4).size, Size::new(72, 56));
        // They begin again before they are large.
        assert_eq!((sample(66).size.width, sample(68).size.width), (160, 64));
    }

    #[test]
    fn generating_stops_when_told() {
        let folder = std::env::temp_dir().join(format!("chain-stopped-{}", std::process::id()));
        let left = std::cell::Cell::new(3);
        generate(&folder, 100, || left.replace(left.get() - 1) == 0).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn random_numbers_are_fixed() {
        let mut random = Random(0);
        // 1013904223 and 1196435762, shifted by 16.
        assert_eq!([random.next(), random.next()], [15470, 18256]);
    }
}
