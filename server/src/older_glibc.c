/*
 * Lets the program run on glibc 2.35, as in Ubuntu 22.04, when it is built on glibc 2.36.
 *
 * The C++ runtime of Debian 12, which is linked into the program, calls arc4random for
 * std::random_device, and that is the only function of glibc 2.36 in it. A definition here takes its
 * place.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
    uint32_t number;
    /* Not interrupted by signals: it waits only while the machine starts. */
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        abort();
    }
    return number;
}
