//! Sample images, made by arithmetic: free to ship, and the same on every machine.

use std::path::Path;

use crate::batch::{BatchError, list};
use crate::image::Image;

/// Side of a sample, in pixels.
const SIDE: u32 = 48;

/// Writes `count` samples to `folder`, unless it holds PNG images already.
///
/// # Errors
/// [`BatchError::Input`] if the folder cannot be made or read, [`BatchError::Sample`] if a file cannot be written.
pub fn write(folder: &Path, count: u32) -> Result<(), BatchError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| BatchError::Input { folder: folder.to_owned(), source })?;
    if !list(folder)?.is_empty() {
        return Ok(());
    }
    for number in 0..count {
        let file = folder.join(format!("sample-{number:03}.png"));
        make(number).save(&file).map_err(|source| BatchError::Sample { file, source })?;
    }
    Ok(())
}

/// Sample number `number`: gradients, checkers, rings and noise in turn.
pub fn make(number: u32) -> Image {
    let mut noise = Noise(number.wrapping_add(1));
    let mut pixels = Vec::with_capacity((SIDE * SIDE * 4) as usize);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (u, v) = (x as f32 / (SIDE - 1) as f32, y as f32 / (SIDE - 1) as f32);
            let pixel = match number % 4 {
                0 => [u, v, 1.0 - u, 1.0],
                1 => [if (x / 6 + y / 6) % 2 == 0 { 0.9_f32 } else { 0.1 }; 4],
                2 => {
                    let ring = ((u - 0.5).hypot(v - 0.5) * 40.0).sin() * 0.5 + 0.5;
                    [ring, 1.0 - ring, 0.5, 1.0]
                }
                _ => [noise.next(), noise.next(), noise.next(), 1.0],
            };
            pixels.extend([pixel[0], pixel[1], pixel[2], 1.0]);
        }
    }
    Image { width: SIDE, height: SIDE, pixels }
}

/// A linear congruential generator (Numerical Recipes' constants).
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 24) as f32
    }
}
