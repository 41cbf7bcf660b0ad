//! Gives the shared library the name by which programs ask for the driver.
//!
//! The dynamic loader answers a later `dlopen("libcuda.so")` with an object of that SONAME that is loaded already. So
//! loading this library by its absolute path is enough, and nothing is installed anywhere.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    println!("cargo:rerun-if-changed=build.rs");
}
