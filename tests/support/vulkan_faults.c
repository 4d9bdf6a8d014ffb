/* A Vulkan loader that lets things go wrong: compiled as libvulkan.so.1, it wraps the one at REAL_LOADER.
 *
 *     VULKAN_FAULT=NAME,N,RESULT   from the N-th submission on the function NAME returns RESULT; after -4, a lost
 *                                  device, so do the others here
 *     VULKAN_HANG=N                the N-th submission never comes to an end
 *     VULKAN_MEMORY=BYTES          allocations beyond so many bytes fail
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*Function)(void);
enum { OUT_OF_DEVICE_MEMORY = -2, DEVICE_LOST = -4, MOST = 4096 };

static Function (*instance_function)(void *, const char *);
static Function (*device_function)(void *, const char *);
static atomic_int submissions, lost;

/* The result that a call of a function is to have; 0 for its own. */
static int fault(const char *name) {
    const char *told = getenv("VULKAN_FAULT");
    if (lost) return DEVICE_LOST;
    if (!told || strncmp(told, name, strlen(name)) || told[strlen(name)] != ',') return 0;
    const char *n = told + strlen(name) + 1;
    if (submissions < atoi(n)) return 0;
    int result = atoi(strchr(n, ',') + 1);
    if (result == DEVICE_LOST) lost = 1;
    return result;
}

#define WRAP(NAME, PARAMETERS, ARGUMENTS)                    \
    static int(*real_##NAME) PARAMETERS;                     \
    static int own_##NAME PARAMETERS {                       \
        int result = fault(#NAME);                           \
        return result ? result : real_##NAME ARGUMENTS;      \
    }

WRAP(vkWaitSemaphores, (void *device, void *info, uint64_t timeout), (device, info, timeout))
WRAP(vkGetSemaphoreCounterValue, (void *device, void *semaphore, uint64_t *value), (device, semaphore, value))
WRAP(vkBeginCommandBuffer, (void *commands, void *info), (commands, info))
WRAP(vkCreateComputePipelines, (void *d, void *cache, uint32_t n, void *info, void *a, void *pipelines),
     (d, cache, n, info, a, pipelines))

static int (*real_vkQueueSubmit)(void *, uint32_t, void *, void *);
static int own_vkQueueSubmit(void *queue, uint32_t n, void *info, void *fence) {
    const char *hang = getenv("VULKAN_HANG");
    if (++submissions == (hang ? atoi(hang) : 0)) for (;;) sleep(1);
    int result = fault("vkQueueSubmit");
    return result ? result : real_vkQueueSubmit(queue, n, info, fence);
}

static struct { void *memory; uint64_t bytes; } held[MOST];

static int (*real_vkAllocateMemory)(void *, void *, void *, void **);
static int own_vkAllocateMemory(void *device, void *info, void *allocator, void **memory) {
    const char *limit = getenv("VULKAN_MEMORY");
    uint64_t bytes, total = 0;
    int free = 0;
    memcpy(&bytes, (char *)info + 16, sizeof bytes); /* VkMemoryAllocateInfo: type, next, allocationSize, … */
    for (int i = 0; i < MOST; i++) total += held[i].bytes;
    while (held[free].bytes) free++;
    int result = limit && total + bytes > strtoull(limit, 0, 10) ? OUT_OF_DEVICE_MEMORY : fault("vkAllocateMemory");
    if (!result) result = real_vkAllocateMemory(device, info, allocator, memory);
    if (!result) held[free].memory = *memory, held[free].bytes = bytes;
    return result;
}

static void (*real_vkFreeMemory)(void *, void *, void *);
static void own_vkFreeMemory(void *device, void *memory, void *allocator) {
    for (int i = 0; i < MOST; i++) if (held[i].memory == memory) held[i].memory = 0, held[i].bytes = 0;
    real_vkFreeMemory(device, memory, allocator);
}

static Function of_device(void *device, const char *name);

static Function wrapped(Function real, const char *name) {
#define TAKE(NAME)                                                                                       \
    if (real && (!strcmp(name, #NAME) || !strcmp(name, #NAME "KHR"))) {                                 \
        *(Function *)&real_##NAME = real;                                                               \
        return (Function)own_##NAME;                                                                     \
    }
    TAKE(vkWaitSemaphores) TAKE(vkGetSemaphoreCounterValue) TAKE(vkBeginCommandBuffer) TAKE(vkCreateComputePipelines)
    TAKE(vkQueueSubmit) TAKE(vkAllocateMemory) TAKE(vkFreeMemory)
    if (real && !strcmp(name, "vkGetDeviceProcAddr")) {
        *(Function *)&device_function = real;
        return (Function)of_device;
    }
    return real;
}

static Function of_device(void *device, const char *name) {
    return wrapped(device_function(device, name), name);
}

Function vkGetInstanceProcAddr(void *instance, const char *name) {
    if (!instance_function) {
        void *loader = dlopen(REAL_LOADER, RTLD_NOW | RTLD_LOCAL);
        *(void **)&instance_function = dlsym(loader, "vkGetInstanceProcAddr");
    }
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)vkGetInstanceProcAddr;
    return wrapped(instance_function(instance, name), name);
}
