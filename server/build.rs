//! Compiles the commit and the required processor features into the program.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Features of processors: the compiler's name, the usual name, and the C expression that tests
/// for it. Features that every processor of the architecture has are left out, and so are those
/// that come only together with one of these.
const X86_64: &[[&str; 3]] = &[
    ["ssse3", "SSSE3", "leaf_1 & bit_SSSE3"],
    ["sse4.1", "SSE4.1", "leaf_1 & bit_SSE4_1"],
    ["sse4.2", "SSE4.2", "leaf_1 & bit_SSE4_2"],
    ["popcnt", "POPCNT", "leaf_1 & bit_POPCNT"],
    ["pclmulqdq", "PCLMUL", "leaf_1 & bit_PCLMUL"],
    ["aes", "AES", "leaf_1 & bit_AES"],
    ["avx", "AVX", "(leaf_1 & bit_AVX) && saves_ymm"],
    ["fma", "FMA", "(leaf_1 & bit_FMA) && saves_ymm"],
    ["avx2", "AVX2", "(leaf_7 & bit_AVX2) && saves_ymm"],
    ["bmi1", "BMI1", "leaf_7 & bit_BMI"],
    ["bmi2", "BMI2", "leaf_7 & bit_BMI2"],
    ["avx512f", "AVX-512", "(leaf_7 & bit_AVX512F) && saves_ymm"],
];

const AARCH64: &[[&str; 3]] = &[
    ["crc", "CRC32", "getauxval(AT_HWCAP) & HWCAP_CRC32"],
    ["aes", "AES", "getauxval(AT_HWCAP) & HWCAP_AES"],
    ["aes", "PMULL", "getauxval(AT_HWCAP) & HWCAP_PMULL"],
    ["lse", "LSE", "getauxval(AT_HWCAP) & HWCAP_ATOMICS"],
    ["sha2", "SHA2", "getauxval(AT_HWCAP) & HWCAP_SHA2"],
    ["sve", "SVE", "getauxval(AT_HWCAP) & HWCAP_SVE"],
];

fn main() -> Result<(), Box<dyn Error>> {
    check_processor()?;
    println!("cargo:rustc-env=TESSERA_BUILT_FROM={}", commit());
    println!("cargo:rustc-env=TESSERA_BUILT_FOR={}", env::var("TARGET")?);
    Ok(())
}

/// Compiles the check of the processor, for the oldest one, and what older C libraries lack.
fn check_processor() -> Result<(), Box<dyn Error>> {
    let (known, oldest, flag) = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => (X86_64, "x86-64", "-march=x86-64"),
        "aarch64" => (AARCH64, "generic", "-march=armv8-a"),
        _ => return Ok(()),
    };
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let mut requirements = String::new();
    for [feature, name, is_there] in known {
        if features.split(',').any(|required| required == *feature) {
            requirements += &format!("REQUIRE(\"{name}\", {is_there})\n");
        }
    }
    let folder = env::var("OUT_DIR")?;
    fs::write(Path::new(&folder).join("requirements.h"), requirements)?;
    println!("cargo:rerun-if-changed=src/processor.c");
    println!("cargo:rerun-if-changed=src/older_glibc.c");
    cc::Build::new()
        .files(["src/processor.c", "src/older_glibc.c"])
        .include(&folder)
        .define("OLDEST", format!("\"{oldest}\"").as_str())
        .flag(flag)
        .inherit_rustflags(false)
        // Rust code calls nothing of it, so the linker would leave it out.
        .link_lib_modifier("+whole-archive")
        .try_compile("tessera_processor")?;
    Ok(())
}

/// The commit that this is built from. A release names it (`TESSERA_COMMIT`), git knows it in a
/// checkout, and without either it stays unknown.
fn commit() -> String {
    println!("cargo:rerun-if-env-changed=TESSERA_COMMIT");
    if let Ok(commit) = env::var("TESSERA_COMMIT")
        && !commit.is_empty()
    {
        return commit;
    }
    // Every commit, checkout and merge adds a line to it.
    if let Some(log) = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ]) && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    } else {
        // Without any such line cargo would run this at every change of a file here.
        println!("cargo:rerun-if-changed=build.rs");
    }
    git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
