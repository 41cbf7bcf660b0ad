//! The Vulkan backend under a manager, for what the conformance suite does not ask of every backend: bytes at odd places,
//! both ways of memory, the pipeline cache, interrupts. The validation layer is on where it is installed, and each test
//! ends with no message of it.
//!
//! Where there is no device a test says so and ends. Not here: embedding (`embed`).

use std::fs;
use std::time::Duration;

use tenure_backend_vulkan::{Messages, VulkanBackend, VulkanOptions};
use tenure_core::backend::{Backend, WaitStatus};
use tenure_core::{
    Access, BackendErrorKind, Error, KernelSource, Manager, ManagerOptions, QueueId, TimelinePoint, op,
};

/// Options for each way that memory can be; both are one device.
fn each_way() -> [(&'static str, VulkanOptions); 3] {
    let staged = VulkanOptions::builder().force_staging(true).build();
    let strict = VulkanOptions::builder().binding_alignment(256).build();
    [("plain", VulkanOptions::default()), ("staged", staged), ("strict", strict)]
}

/// A backend with the layer on, if there is one; none, with the reason printed, where there is no device.
fn open(options: VulkanOptions) -> Option<(VulkanBackend, Messages)> {
    let messages = Messages::new();
    let options = if VulkanBackend::has_validation() {
        options.with_validation(messages.clone())
    } else {
        println!("without the validation layer: it is not installed");
        options
    };
    match VulkanBackend::with_options(&options) {
        Ok(backend) => Some((backend, messages)),
        Err(error) if error.kind == BackendErrorKind::Unavailable => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("the device does not open: {error}"),
    }
}

/// Runs `test` with a manager, and looks at what the layer said.
fn with_manager(options: VulkanOptions, test: impl FnOnce(&Manager)) {
    let Some((backend, messages)) = open(options) else { return };
    let manager = Manager::open_with(backend, ManagerOptions::default()).expect("a manager");
    test(&manager);
    let report = manager.close().expect("it closes");
    assert!(report.is_clean(), "{report}");
    drop(manager);
    assert_eq!(messages.take(), [""; 0]);
}

fn each_manager(test: impl Fn(&Manager)) {
    for (way, options) in each_way() {
        println!("{way}");
        with_manager(options, &test);
    }
}

const DOUBLE: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&x) { x[id.x] = x[id.x] * 2u; }
}";

fn double() -> KernelSource {
    KernelSource::new("double", &[Access::ReadWrite]).wgsl(DOUBLE, "double")
}

#[test]
fn bytes_are_filled_and_copied_wherever_they_are() {
    each_manager(|manager| {
        let scope = manager.scope("bytes").unwrap();
        let tensor = scope.tensor_from("bytes", &[0_u8; 64]).unwrap();
        let other = scope.tensor_from("other", &[0_u8; 64]).unwrap();
        for (start, end) in [(0, 64), (1, 2), (1, 8), (3, 4), (5, 11), (7, 64), (63, 64), (0, 3)] {
            let mut expected = [1_u8; 64];
            expected[start..end].fill(9);
            let part = tensor.view(start as u64..end as u64).unwrap();
            scope.evaluate([op::fill(&tensor, 1), op::fill(&part, 9)]).unwrap().wait().unwrap();
            assert_eq!(tensor.read().unwrap(), expected, "{start}..{end}");
            let mut copied = [3_u8; 64];
            copied[..end - start].fill(9);
            let to = other.view(0..(end - start) as u64).unwrap();
            scope.evaluate([op::fill(&other, 3), op::copy(&part, &to)]).unwrap().wait().unwrap();
            assert_eq!(other.read().unwrap(), copied, "{start}..{end}");
        }
        scope.finish_blocking().unwrap();
    });
}

/// Fills elements of `N` bytes, from each of the first elements on.
fn fills<const N: usize>(manager: &Manager, elements: usize)
where
    [u8; N]: tenure_core::Element,
{
    let value: [u8; N] = std::array::from_fn(|at| at as u8 + 1);
    let scope = manager.scope("fills").unwrap();
    let tensor = scope.tensor_from("fill", &vec![[0_u8; N]; elements]).unwrap();
    for start in 0..3 {
        let part = tensor.view(start as u64..elements as u64).unwrap();
        scope.evaluate([op::fill(&tensor, [0_u8; N]), op::fill(&part, value)]).unwrap().wait().unwrap();
        let mut expected = vec![value; elements];
        expected[..start].fill([0; N]);
        assert!(tensor.read().unwrap() == expected, "{elements} elements of {N} bytes from {start}");
    }
    scope.finish_blocking().unwrap();
}

#[test]
fn elements_of_any_size_fill() {
    each_manager(|manager| {
        fills::<2>(manager, 101);
        fills::<3>(manager, 101);
        fills::<4>(manager, 101);
        fills::<5>(manager, 10_007);
        fills::<8>(manager, 10_007);
        fills::<12>(manager, 10_007);
        fills::<64>(manager, 1_009);
    });
}

#[test]
fn a_binding_begins_at_any_element() {
    each_manager(|manager| {
        let kernel = manager.kernel(&double()).unwrap();
        let scope = manager.scope("bindings").unwrap();
        let tensor = scope.tensor_from("row", &[1_u32; 200]).unwrap();
        let mut expected = [1_u32; 200];
        for start in [0, 1, 3, 64, 65, 100] {
            let part = tensor.view(start..start + 100).unwrap();
            let twice = || op::dispatch(&kernel).bind(&part).groups([2, 1, 1]);
            scope.evaluate([twice(), twice()]).unwrap().wait().unwrap();
            expected[start as usize..][..100].iter_mut().for_each(|value| *value *= 4);
            assert_eq!(tensor.read().unwrap(), expected, "from {start}");
        }
        scope.finish_blocking().unwrap();
    });
}

#[test]
fn an_empty_tensor_has_no_length() {
    const COUNT: &str = "@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> n: array<u32>;
@compute @workgroup_size(1)
fn count() { n[0] = arrayLength(&x); }";
    with_manager(VulkanOptions::default(), |manager| {
        let count = KernelSource::new("count", &[Access::Read, Access::Write]).wgsl(COUNT, "count");
        let count = manager.kernel(&count).unwrap();
        let scope = manager.scope("lengths").unwrap();
        let result = scope.tensor_from("n", &[77_u32]).unwrap();
        for length in [0_u32, 1, 5] {
            let tensor = scope.tensor_from("x", &vec![0_u32; length as usize]).unwrap();
            scope.evaluate([op::dispatch(&count).bind(&tensor).bind(&result)]).unwrap().wait().unwrap();
            assert_eq!(result.read().unwrap(), [length]);
        }
        scope.finish_blocking().unwrap();
    });
}

#[test]
fn large_copies_arrive_whole() {
    each_manager(|manager| {
        let data: Vec<u8> = (0..5_000_011_u32).map(|at| (at % 251) as u8).collect();
        let tensor = manager.tensor_from("data", &data).unwrap();
        assert!(tensor.read().unwrap() == data);
        let scope = manager.scope("copies").unwrap();
        let target = scope.tensor_from("target", &vec![0_u8; data.len()]).unwrap();
        scope.evaluate([op::copy(&tensor, &target)]).unwrap().wait().unwrap();
        assert!(target.read().unwrap() == data);
        scope.finish_blocking().unwrap();
    });
}

#[test]
fn an_upload_is_copied_once_by_the_host() {
    for (way, options) in each_way() {
        println!("{way}");
        with_manager(options, |manager| {
            let data = vec![7_u8; 64 << 20];
            let copied = || manager.backend::<VulkanBackend>().expect("it is this one").copied_bytes();
            let before = copied();
            let tensor = manager.tensor_from("data", &data).unwrap();
            assert_eq!(copied() - before, 64 << 20);
            assert!(tensor.read().unwrap() == data);
            assert_eq!(copied() - before, 128 << 20);
        });
    }
}

#[test]
fn a_kernel_that_does_not_compile_is_told_with_its_line() {
    with_manager(VulkanOptions::default(), |manager| {
        let wrong = DOUBLE.replace("* 2u", "* 2.0f");
        let source = KernelSource::new("blur", &[Access::ReadWrite]).wgsl(wrong, "double");
        match manager.kernel(&source).unwrap_err() {
            Error::Backend(error) => {
                assert_eq!(error.kind, BackendErrorKind::Compile);
                assert!(error.message.contains("kernel `blur`"), "{error}");
                assert!(error.message.contains("x[id.x] * 2.0f"), "{error}");
            }
            error => panic!("it does not compile: {error}"),
        }
    });
}

#[test]
fn the_pipeline_cache_survives_and_damage_does_not_matter() {
    let path = std::env::temp_dir().join(format!("tenure-vulkan-{}.cache", std::process::id()));
    let compile = || {
        let options = VulkanOptions::builder().pipeline_cache(path.clone()).build();
        with_manager(options, |manager| drop(manager.kernel(&double()).unwrap()));
    };
    compile();
    let Ok(written) = fs::read(&path) else {
        println!("skipped: there is no device");
        return;
    };
    compile();
    for damaged in [&written[..written.len() / 2], b"", &[0xff; 4096]] {
        fs::write(&path, damaged).unwrap();
        compile();
        assert_eq!(fs::read(&path).unwrap()[..8], written[..8], "it was built anew");
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn an_interrupt_is_latched_and_ends_waits() {
    let Some((backend, messages)) = open(VulkanOptions::default()) else { return };
    let wait = |timeout| backend.wait_any(&[], timeout).unwrap();
    assert_eq!(wait(Some(Duration::ZERO)), WaitStatus::TimedOut);
    backend.interrupt();
    backend.interrupt();
    assert_eq!(wait(None), WaitStatus::Woken);
    assert_eq!(wait(Some(Duration::from_millis(1))), WaitStatus::TimedOut);
    let never = TimelinePoint { queue: QueueId(0), value: 1 };
    std::thread::scope(|threads| {
        let waits: Vec<_> = [vec![], vec![never]]
            .into_iter()
            .map(|targets| {
                threads.spawn({
                    let backend = &backend;
                    move || backend.wait_any(&targets, Some(Duration::MAX)).unwrap()
                })
            })
            .collect();
        // Latched or not, each interrupt ends at least one of them.
        while !waits.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            backend.interrupt();
            std::thread::yield_now();
        }
        for wait in waits {
            assert_eq!(wait.join().unwrap(), WaitStatus::Woken);
        }
    });
    assert_eq!(backend.completed(QueueId(0)).unwrap(), 0);
    drop(backend);
    assert_eq!(messages.take(), [""; 0]);
}

#[test]
fn memory_is_counted_and_given_back() {
    with_manager(VulkanOptions::default(), |manager| {
        let before = manager.driver_memory().unwrap().used;
        let tensor = manager.tensor_from("large", &vec![0_u8; 8 << 20]).unwrap();
        assert!(manager.driver_memory().unwrap().used >= before + (8 << 20));
        drop(tensor);
        manager.trim().unwrap();
        assert!(manager.driver_memory().unwrap().used < before + (8 << 20));
    });
}

#[test]
fn a_device_that_is_not_there_is_unavailable() {
    let options = VulkanOptions::builder().device("no such device").build();
    let error = VulkanBackend::with_options(&options).err().expect("there is none");
    assert_eq!(error.kind, BackendErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("install"), "{error}");
}
