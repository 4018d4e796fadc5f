//! Takes chance out of the simulation's programs: see `src/no_chance.c`.

fn main() {
    println!("cargo:rerun-if-changed=src/no_chance.c");
    let of_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if of_linux {
        // As an object and not as a library: a weak reference, as the standard library's is, takes nothing out of one.
        for object in cc::Build::new().file("src/no_chance.c").compile_intermediates() {
            println!("cargo:rustc-link-arg-bins={}", object.display());
        }
    }
}
