//! What a node of the chain is, and what flows from node to node.
//!
//! Not here: the nodes (`nodes/`), their order (`chain.rs`), and who runs them (`batch.rs`).

use std::path::PathBuf;

use tenure::{Error, ManagedSequence, Manager, ScopeRef, Tensor, TensorOptions};

use crate::error::ImageError;
use crate::kernels::{CHANNELS, Size};
use crate::weights::WeightCache;

/// One step of the chain.
///
/// # Life cycle, for each image
/// 1. [`Node::record`], with a new scope and a new sequence.
/// 2. The sequence is evaluated and has completed.
/// 3. [`Node::complete`].
/// 4. The node's scope finishes: its sequence and its scratch tensors go.
///
/// If one of these fails the rest is left out, except the last.
pub trait Node: Send + Sync {
    /// The name: of the sequence, and in reports.
    fn name(&self) -> &'static str;

    /// Takes the picture from the frame, records what is to be done with it, and puts the result there.
    ///
    /// # Errors
    /// Any; the image has failed.
    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError>;

    /// Does what is to be done on the host after the device.
    ///
    /// # Errors
    /// Any; the image has failed.
    fn complete(&self, frame: &mut Frame) -> Result<(), ImageError>;
}

/// What flows along the chain for one image.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The file to read.
    pub source: PathBuf,
    /// The file to write.
    pub target: PathBuf,
    picture: Option<Picture>,
}

impl Frame {
    /// A frame at the beginning of the chain, with no picture yet.
    pub fn new(source: PathBuf, target: PathBuf) -> Frame {
        Frame { source, target, picture: None }
    }

    /// Puts a picture in the place of the one before.
    pub fn put(&mut self, picture: Picture) {
        self.picture = Some(picture);
    }

    /// Takes the picture out.
    ///
    /// # Panics
    /// If there is none: the chain is in a wrong order.
    pub fn take(&mut self) -> Picture {
        self.picture.take().expect("a node that makes a picture comes before those that need one")
    }
}

/// A picture on the device, as `kernels` describes it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// In pixels.
    pub size: Size,
    /// Height x width x channels.
    pub pixels: Tensor<f32>,
}

/// Where a node records: its sequence, and the scopes for what it makes.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The manager of all of them.
    pub manager: &'a Manager,
    /// The image's scope. What is made here goes when the image is done, or earlier, with its last handle (L2).
    pub image: &'a ScopeRef,
    /// The node's scope. What is made here goes when the node is done.
    pub node: &'a ScopeRef,
    /// The node's sequence. What it names stays until the node is done (L5).
    pub sequence: &'a ManagedSequence,
    /// What all images share.
    pub weights: &'a WeightCache,
}

impl Step<'_> {
    /// A picture for the next node.
    ///
    /// # Errors
    /// As [`ScopeRef::tensor`].
    pub fn result(&self, label: &str, size: Size) -> Result<Picture, Error> {
        picture(self.image, label, size)
    }

    /// A picture that only this node needs.
    ///
    /// # Errors
    /// As [`ScopeRef::tensor`].
    pub fn scratch(&self, label: &str, size: Size) -> Result<Picture, Error> {
        picture(self.node, label, size)
    }
}

fn picture(scope: &ScopeRef, label: &str, size: Size) -> Result<Picture, Error> {
    let shape = [u64::from(size.height), u64::from(size.width), CHANNELS as u64];
    let pixels = scope.tensor_with(TensorOptions::builder().shape(shape).label(label).build())?;
    Ok(Picture { size, pixels })
}
