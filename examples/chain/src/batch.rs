//! A batch: the images of a folder, in one scope, each in a scope of its own.

use std::fs;
use std::path::{Path, PathBuf};

use tenure::{Error, ManagedScope, ManagerOptions, RunError};

use crate::cancel::Cancel;
use crate::cli::Cli;
use crate::image::{Image, ImageError};
use crate::kernels::Size;
use crate::node::Chain;
use crate::progress::Progress;
use crate::summary::Summary;

/// Why nothing could be done at all.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The input folder cannot be read.
    #[error("cannot read the input folder {}: {source}", folder.display())]
    Input {
        /// The folder.
        folder: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// There is nothing to do.
    #[error("there is no PNG image in {} (--generate makes some)", .0.display())]
    NoImages(PathBuf),
    /// The output folder cannot be written to.
    #[error("cannot write to the output folder {}: {source}", folder.display())]
    Output {
        /// The folder.
        folder: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// A sample image cannot be written.
    #[error("cannot write the sample {}: {source}", file.display())]
    Sample {
        /// The file.
        file: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// Ctrl-C cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Signal(ctrlc::Error),
    /// The backend cannot be opened, or the batch's scope cannot be finished.
    #[error(transparent)]
    Tenure(#[from] Error),
}

/// Why one image failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The device or its memory.
    #[error(transparent)]
    Tenure(#[from] Error),
}

/// The images of a folder and where they go.
pub struct Batch<'a> {
    cli: &'a Cli,
    cancel: &'a Cancel,
    files: Vec<PathBuf>,
}

impl<'a> Batch<'a> {
    /// Lists the images and makes the output folder.
    ///
    /// # Errors
    /// [`BatchError::Input`], [`BatchError::NoImages`], [`BatchError::Output`].
    pub fn new(cli: &'a Cli, cancel: &'a Cancel) -> Result<Self, BatchError> {
        let files = list(&cli.input)?;
        if files.is_empty() {
            return Err(BatchError::NoImages(cli.input.clone()));
        }
        fs::create_dir_all(&cli.output)
            .map_err(|source| BatchError::Output { folder: cli.output.clone(), source })?;
        Ok(Batch { cli, cancel, files })
    }

    /// Runs the chain over every image.
    ///
    /// # Errors
    /// [`BatchError::Tenure`] if the backend cannot be opened or the scope fails. What single images fail with is
    /// in the summary.
    pub fn run(&self) -> Result<Summary, BatchError> {
        let options = ManagerOptions::builder().label("chain").trim(self.cli.trim.into()).build();
        let manager = tenure::open_with_options(&self.cli.backend, options)?;
        let mut summary = Summary::new(manager.info());
        let chain = Chain::new(&manager)?;
        let scope = manager.scope("batch")?;
        self.cancel.watch(&scope);
        let progress = Progress::new(self.files.len(), self.cli.quiet);
        for (at, file) in self.files.iter().enumerate() {
            if self.cancel.is_asked() {
                break;
            }
            if self.cli.pause_after == Some(at) {
                println!("paused after {at} images");
                self.cancel.wait();
            }
            progress.at(file);
            match self.image(&scope, &chain, file, &mut summary) {
                Ok(()) => summary.done += 1,
                Err(JobError::Tenure(Error::Cancelled { .. })) => break,
                Err(error) => {
                    progress.failed(file, &error);
                    summary.failed.push((file.clone(), error));
                    if self.cli.fail_fast {
                        break;
                    }
                }
            }
            progress.advance();
        }
        progress.end();
        summary.cancelled = self.cancel.is_asked();
        let report = scope.finish_blocking()?;
        drop(chain);
        summary.add_hooks(&report);
        summary.batch = Some(report);
        let close = manager.close()?;
        summary.memory = close.memory;
        summary.problems = if close.is_clean() { None } else { Some(close.to_string()) };
        Ok(summary)
    }

    /// One image, in a scope of its own: whatever happens, its memory goes when it is done.
    fn image(
        &self,
        batch: &ManagedScope,
        chain: &Chain,
        file: &Path,
        summary: &mut Summary,
    ) -> Result<(), JobError> {
        let name = file.file_name().unwrap_or_default();
        let scope = batch.scope(name.to_string_lossy().into_owned())?;
        let mut work = || -> Result<(), JobError> {
            let image = summary.timed("load", || Image::load(file, self.cli.max_pixels))?;
            let size = Size { width: image.width, height: image.height };
            let source = scope.tensor_from("source", &image.pixels)?;
            let outcome = chain.run(&scope, batch, &source, size)?;
            summary.add_times(&outcome.times);
            let result = Image {
                width: outcome.size.width,
                height: outcome.size.height,
                pixels: outcome.pixels.read()?,
            };
            summary.timed("save", || result.save(&self.cli.output.join(name)))?;
            Ok(())
        };
        let result = work();
        match scope.finish_with(result) {
            Ok(((), report)) => {
                summary.add_hooks(&report);
                Ok(())
            }
            Err(RunError::Body { error, report }) => {
                if let Some(report) = report {
                    summary.add_hooks(&report);
                }
                Err(error)
            }
            Err(RunError::Scope(error)) => Err(error.into()),
        }
    }
}

/// The PNG files of a folder, by name.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, BatchError> {
    let unreadable = |source| BatchError::Input { folder: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        if is_png && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
