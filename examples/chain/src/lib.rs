//! A chain of image filters over a folder of PNG files: load, upscale, blur, sharpen, save.
//!
//! It shows how a program lives on tenure: the batch is a scope, each image a scope in it, each node of the chain
//! a scope in that, with a named sequence and hooks of its own. Whatever happens to an image, all that it held
//! is given back before the next one begins.
//!
//! It runs on every backend of the build (`--backend`), with the same pixels within one step of 255; the report names the
//! device, and says so where that is software. On a device a result is at most as large as one binding may be, which is
//! 128 MiB, about 8 million pixels, on many; on all of them an image is at most 32,767 pixels wide or high.
//!
//! - [`app`] is the run from its arguments to its exit code; [`cli`] the arguments, [`cancel`] Ctrl-C.
//! - [`batch`] is the loop over the images; [`node`] what a node is, [`chain`] which nodes there are, in [`nodes`]
//!   one file each; [`weights`] what the nodes share.
//! - [`kernels`] has the device code: most of it is `tenure-kernels`', the rest a host form and WGSL.
//! - [`image`] reads and writes PNG files, [`files`] folders and whole files, [`samples`] makes pictures to try.
//! - [`ledger`] counts, [`progress`] tells meanwhile, [`report`] at the end; [`error`] is what can go wrong.

pub mod app;
pub mod batch;
pub mod cancel;
pub mod chain;
pub mod cli;
pub mod error;
pub mod files;
pub mod image;
pub mod kernels;
pub mod ledger;
pub mod node;
pub mod nodes;
pub mod progress;
pub mod report;
pub mod samples;
pub mod weights;
