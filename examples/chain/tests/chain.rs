//! The program as its user runs it: good images, bad images, wrong arguments, Ctrl-C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tenure-chain-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("in")).expect("a folder");
        Folder(folder)
    }

    fn input(&self) -> PathBuf {
        self.0.join("in")
    }

    fn output(&self) -> PathBuf {
        self.0.join("out")
    }

    fn with_samples(self) -> Self {
        for entry in fs::read_dir(samples()).expect("the samples are shipped") {
            let path = entry.expect("readable").path();
            fs::copy(&path, self.input().join(path.file_name().expect("a file"))).expect("copied");
        }
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

fn command(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chain"));
    command.arg("--input").arg(folder.input()).arg("--output").arg(folder.output());
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    (
        status.code(),
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

/// Width, height and 8-bit RGBA bytes of a result.
fn decode(path: &Path) -> (u32, u32, Vec<u8>) {
    let file = std::io::BufReader::new(fs::File::open(path).expect("it was written"));
    let mut reader = png::Decoder::new(file).read_info().expect("it is a PNG file");
    let mut bytes = vec![0; reader.output_buffer_size().expect("small")];
    let frame = reader.next_frame(&mut bytes).expect("whole");
    (frame.width, frame.height, bytes)
}

#[test]
fn a_folder_of_good_images() {
    let folder = Folder::new("good").with_samples();
    let count = fs::read_dir(samples()).expect("shipped").count();
    for trim in ["on-finish", "every-execution", "never"] {
        let (code, stdout, stderr) = run(command(&folder).args(["--trim", trim]));
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert!(stdout.contains(&format!("images: {count} done, 0 failed")), "{stdout}");
        // A node's hook each, and the shared one once for the whole batch.
        assert!(stdout.contains(&format!("hooks: {} run, 0 failed", 3 * count + 1)), "{stdout}");
        assert!(stdout.contains("cached at the end: 0 bytes"), "{stdout}");
    }
    for entry in fs::read_dir(folder.input()).expect("there") {
        let name = entry.expect("readable").file_name();
        let (width, height, _) = decode(&folder.output().join(&name));
        let (from_width, from_height, _) = decode(&folder.input().join(&name));
        assert_eq!((width, height), (2 * from_width, 2 * from_height), "{name:?}");
    }
}

#[test]
fn a_constant_image_stays_constant() {
    let folder = Folder::new("constant");
    let file = fs::File::create(folder.input().join("grey.png")).expect("a file");
    let mut encoder = png::Encoder::new(file, 5, 3);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&[100; 15]).expect("fifteen pixels");
    writer.finish().expect("whole");
    let (code, stdout, stderr) = run(&mut command(&folder));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let (width, height, pixels) = decode(&folder.output().join("grey.png"));
    assert_eq!((width, height), (10, 6));
    assert!(pixels.chunks_exact(4).all(|pixel| pixel == [100, 100, 100, 255]), "{pixels:?}");
}

#[test]
fn a_corrupt_image_is_named_and_the_others_are_done() {
    let folder = Folder::new("corrupt").with_samples();
    fs::write(folder.input().join("aaa-broken.png"), b"\x89PNG\r\n\x1a\nnot really").expect("written");
    let (code, stdout, stderr) = run(&mut command(&folder));
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("aaa-broken.png") && stderr.contains("not a readable PNG image"), "{stderr}");
    assert!(stdout.contains("1 failed"), "{stdout}");
    let done = fs::read_dir(folder.output()).expect("there").count();
    assert_eq!(done, fs::read_dir(samples()).expect("shipped").count(), "and nothing partial");

    let fresh = Folder::new("fast").with_samples();
    fs::write(fresh.input().join("aaa-broken.png"), b"no image").expect("written");
    let (code, stdout, _) = run(command(&fresh).arg("--fail-fast"));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("images: 0 done, 1 failed"), "{stdout}");
}

#[test]
fn a_huge_image_is_refused_by_its_header() {
    let folder = Folder::new("huge");
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 60_000, 60_000);
    encoder.set_color(png::ColorType::Rgba);
    // The header alone: there is no data for 14 GB of pixels.
    drop(encoder.write_header().expect("a header"));
    fs::write(folder.input().join("huge.png"), bytes).expect("written");
    let (code, stdout, stderr) = run(&mut command(&folder));
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("huge.png") && stderr.contains("60000 x 60000 pixels"), "{stderr}");
}

#[test]
fn what_cannot_be_used_at_all_says_so() {
    let folder = Folder::new("unusable");
    let (code, _, stderr) = run(&mut command(&folder));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("there is no PNG image in"), "{stderr}");

    let (code, _, stderr) = run(command(&folder.with_samples()).args(["--backend", "abacus"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("there is no backend `abacus`"), "{stderr}");

    let missing = Folder::new("missing");
    fs::remove_dir_all(missing.input()).expect("it was there");
    let (code, _, stderr) = run(&mut command(&missing));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cannot read the input folder"), "{stderr}");
}

#[test]
fn samples_are_generated_where_there_are_none() {
    let folder = Folder::new("generate");
    let (code, stdout, stderr) = run(command(&folder).args(["--generate", "5"]));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("images: 5 done"), "{stdout}");
    let (_, stdout, _) = run(command(&folder).args(["--generate", "9"]));
    assert!(stdout.contains("images: 5 done"), "what is there is not added to: {stdout}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_and_gives_everything_back() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let folder = Folder::new("cancel").with_samples();
    let mut child = command(&folder)
        .args(["--pause-after", "1", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it says that it waits");
    assert_eq!(line, "paused after 1 images\n");
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.starts_with("cancelled on host"), "{rest}");
    assert!(rest.contains("images: 1 done, 0 failed"), "{rest}");
    assert!(rest.contains("scope `batch`: Cancelled"), "{rest}");
    assert!(rest.contains("cached at the end: 0 bytes"), "{rest}");
    assert!(!rest.contains("still held"), "{rest}");
}
