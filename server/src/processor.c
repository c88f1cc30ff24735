/*
 * Ends the process with a clear message on a processor that lacks what the program was compiled for.
 *
 * In C, because it must run before RocksDB's static constructors, which are compiled for that
 * processor themselves: it is the first constructor of the program, and compiled for the oldest
 * processor there is. server/build.rs writes the list of requirements, from the features that the
 * crates are compiled with.
 */
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define BEGIN "tessera: this processor, or the virtual machine's model of it, lacks "
#define END                                                                                  \
    ", which this program was compiled for; run it on a newer processor, let the virtual "   \
    "machine show the processor as it is, or build it from source for older ones, with "     \
    "TESSERA_PROCESSOR=" OLDEST " scripts/run\n"

static void add(char *message, const char *text) {
    strncat(message, text, 1023 - strlen(message));
}

__attribute__((constructor(101))) static void check_processor(void) {
    char message[1024] = "";
    int lacking = 0;
#if defined(__x86_64__)
    /* Not __builtin_cpu_supports: what that calls is in a library that Rust does not link. */
    unsigned ignored, leaf_1 = 0, leaf_7 = 0, saves_ymm = 0;
    if (__get_cpuid(1, &ignored, &ignored, &leaf_1, &ignored) && (leaf_1 & bit_OSXSAVE)) {
        unsigned low, high;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        saves_ymm = (low & 6) == 6;
    }
    __get_cpuid_count(7, 0, &ignored, &leaf_7, &ignored, &ignored);
    (void)leaf_7, (void)saves_ymm;
#endif
#define REQUIRE(name, is_there)                   \
    if (!(is_there)) {                            \
        add(message, lacking++ ? ", " : BEGIN);   \
        add(message, name);                       \
    }
#include "requirements.h"
    if (lacking) {
        add(message, END);
        /* Whether or not it could be written: the exit code says it too. */
        ssize_t written = write(STDERR_FILENO, message, strlen(message));
        _exit(written < 0 ? 2 : 1);
    }
}
