//! Gives the shared library the name by which programs ask for the driver.
//!
//! The dynamic loader answers a later `dlopen("libcuda.so")` with an object of that SONAME that is loaded already. So
//! loading this library by its absolute path is enough, and nothing is installed anywhere.

fn main() {
    // Other systems' linkers have no such name, and programs there do not ask for it.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
