//! Folders and whole files: which images there are, where results go, and writing a file completely or not at all.
//!
//! Not here: what is in the files (`image.rs`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::SetupError;

/// The files of the folder `input` that end in `.png`, in the order of their names. Folders in it are not looked into.
///
/// # Errors
/// [`SetupError::Input`], and [`SetupError::NoImages`] if there are none.
pub fn images(input: &Path) -> Result<Vec<PathBuf>, SetupError> {
    let failed = |source| SetupError::Input { path: input.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(input).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        // What cannot be looked at is listed, so that it is reported and not passed over.
        if is_png && !path.is_dir() {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(SetupError::NoImages(input.to_owned()));
    }
    found.sort();
    Ok(found)
}

/// Makes the folder `output` if it is not there, and tries whether a file can be written to it.
///
/// # Errors
/// [`SetupError::Output`], and [`SetupError::SameFolder`] if it is the input folder.
pub fn prepare_output(output: &Path, input: &Path) -> Result<(), SetupError> {
    let failed = |source| SetupError::Output { path: output.to_owned(), source };
    fs::create_dir_all(output).map_err(failed)?;
    if fs::canonicalize(output).map_err(failed)? == fs::canonicalize(input).map_err(failed)? {
        return Err(SetupError::SameFolder(output.to_owned()));
    }
    // Permissions alone do not tell: try it.
    let trial = Partial::create(&output.join("trial")).map_err(failed)?;
    drop(trial);
    Ok(())
}

/// True if there is nothing at `path`, or an empty folder.
///
/// # Errors
/// What the system says of a folder that cannot be read.
pub fn is_missing_or_empty(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes the file `target` with what `write` writes, in one step for whoever looks: before it the old file is there or
/// none, after it the whole new one. If anything fails nothing is left behind.
///
/// # Errors
/// Of `write` and of the system.
pub fn write_whole(target: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let partial = Partial::create(target)?;
    let mut writer = BufWriter::new(&partial.file);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    partial.commit(target)
}

/// A file on its way, next to the one that it will be. Dropped before `commit` it is removed.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn create(target: &Path) -> io::Result<Partial> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        // Hidden, with no `.png` at its end, and this process's own.
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let path = target.with_file_name(hidden);
        let file = File::create(&path)?;
        Ok(Partial { path, file })
    }

    fn commit(self, target: &Path) -> io::Result<()> {
        // The bytes before the name: after a loss of power too the file is whole.
        self.file.sync_all()?;
        fs::rename(&self.path, target)
        // The drop that follows finds nothing under the old name.
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone already if it was committed; and a destructor has nobody to tell.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of this test alone.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("chain-files-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn images_are_png_files_in_order() {
        let folder = folder("order");
        for name in ["b.png", "a.PNG", "c.jpg", "png"] {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::create_dir(folder.join("d.png")).unwrap();
        let found = images(&folder).unwrap();
        assert_eq!(found, [folder.join("a.PNG"), folder.join("b.png")]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_whole_file_replaces_the_old_one() {
        let folder = folder("replace");
        let target = folder.join("a.png");
        fs::write(&target, "old").unwrap();
        write_whole(&target, |writer| writer.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(&folder), ["a.png"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = folder("failed");
        let target = folder.join("a.png");
        fs::write(&target, "old").unwrap();
        let result = write_whole(&target, |writer| {
            writer.write_all(b"ne")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(result.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(names(&folder), ["a.png"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_panic_leaves_nothing_either() {
        let folder = folder("panic");
        let target = folder.join("a.png");
        let write = || write_whole(&target, |_| panic!("while writing"));
        assert!(std::panic::catch_unwind(write).is_err());
        assert!(names(&folder).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_output_is_made_and_left_empty() {
        let folder = folder("output");
        let output = folder.join("deep").join("down");
        prepare_output(&output, &folder).unwrap();
        assert!(names(&output).is_empty());
        let same = prepare_output(&output.join(".."), &folder.join("deep"));
        assert!(matches!(same, Err(SetupError::SameFolder(_))));
        fs::write(folder.join("file"), "").unwrap();
        let file = prepare_output(&folder.join("file"), &output);
        assert!(matches!(file, Err(SetupError::Output { .. })));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_folder_counts_as_empty() {
        let folder = folder("empty");
        assert!(is_missing_or_empty(&folder).unwrap());
        assert!(is_missing_or_empty(&folder.join("no")).unwrap());
        fs::write(folder.join("file"), "").unwrap();
        assert!(!is_missing_or_empty(&folder).unwrap());
        assert!(is_missing_or_empty(&folder.join("file")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
