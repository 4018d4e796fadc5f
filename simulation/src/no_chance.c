/* The system's random bytes, without chance: always the same. The standard library asks for them to seed its hash maps,
 * whose order would otherwise differ from run to run; it refers to this function weakly, so that it can be replaced.
 * Nothing secret is made in a simulation: keys and ids come from its own seeded entropy. */
#include <stddef.h>
#include <sys/types.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    unsigned char *bytes = buffer;
    unsigned int state = 0x9e3779b9u;
    (void)flags;
    for (size_t i = 0; i < length; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(state >> 24);
    }
    return (ssize_t)length;
}
