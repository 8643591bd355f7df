/* Simulated NVML for tests: enough of libnvidia-ml.so.1 for nvidia-ml-py to list cards.
 *
 * Everything is read from the file named by NVML_STATE, again at each query, so that a test can
 * change what a running process sees. One line per fact, a card's processes after the card:
 *
 *   init ERROR
 *   gpu HANDLE_ERROR ERROR DOMAIN BUS DEVICE TOTAL USED UTIL TEMP POWER UUID NAME...
 *   compute PID MIB
 *   graphics PID MIB
 *
 * Memory in MiB, power in W, bus and device in hexadecimal; -1 = the card does not support it.
 * HANDLE_ERROR is answered when the card is looked up, ERROR to every question about it.
 * It shows nothing about real GPUs or CUDA.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
enum { MAX_CARDS = 32, MAX_PROCESSES = 64 };
#define MIB (1024ULL * 1024ULL)

typedef struct { unsigned int pid; unsigned long long memory; unsigned int gi, ci; } process_t;
typedef struct { process_t entry[MAX_PROCESSES]; unsigned int count; } processes_t;

typedef struct {
    int handle_error, error;
    unsigned int domain, bus, device;
    long long total, used, util, temperature, power;
    char uuid[80], name[96];
    processes_t compute, graphics;
} card_t;

typedef struct { int init_error; unsigned int count; card_t card[MAX_CARDS]; } state_t;

static state_t state;

static void add(processes_t *list, const char *line) {
    process_t *entry = &list->entry[list->count];
    long long mib;
    if (list->count < MAX_PROCESSES && sscanf(line, "%*s %u %lld", &entry->pid, &mib) == 2) {
        entry->memory = mib < 0 ? ~0ULL : (unsigned long long)mib * MIB;
        entry->gi = entry->ci = ~0U;
        list->count++;
    }
}

static int load(void) {
    const char *path = getenv("NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    if (!file) return UNKNOWN;
    memset(&state, 0, sizeof state);
    while (fgets(line, sizeof line, file)) {
        card_t *card = &state.card[state.count];
        if (sscanf(line, "init %d", &state.init_error) == 1) continue;
        if (state.count < MAX_CARDS &&
            sscanf(line, "gpu %d %d %x %x %x %lld %lld %lld %lld %lld %79s %95[^\n]",
                   &card->handle_error, &card->error, &card->domain, &card->bus, &card->device,
                   &card->total, &card->used, &card->util, &card->temperature, &card->power,
                   card->uuid, card->name) == 12)
            state.count++;
        else if (state.count && !strncmp(line, "compute ", 8)) add(&card[-1].compute, line);
        else if (state.count && !strncmp(line, "graphics ", 9)) add(&card[-1].graphics, line);
    }
    fclose(file);
    return SUCCESS;
}

/* A handle is the place + 1. */
static int find(void *handle, card_t **card) {
    size_t place = (size_t)handle - 1;
    int error = load();
    if (error) return error;
    if (place >= state.count) return INVALID_ARGUMENT;
    *card = &state.card[place];
    return (*card)->error;
}

static int copy(const char *text, char *buffer, unsigned int size) {
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    int error = load();
    return error ? error : state.init_error;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) { (void)error; return "simulated error"; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned int size) {
    return copy("550.54.15", buffer, size);
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    int error = load();
    *count = state.count;
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int place, void **handle) {
    int error = load();
    if (error) return error;
    if (place >= state.count) return INVALID_ARGUMENT;
    *handle = (void *)(size_t)(place + 1);
    return state.card[place].handle_error;
}

int nvmlDeviceGetIndex(void *handle, unsigned int *index) {
    card_t *card;
    int error = find(handle, &card);
    *index = (unsigned int)((size_t)handle - 1);
    return error;
}

int nvmlDeviceGetName(void *handle, char *buffer, unsigned int size) {
    card_t *card;
    int error = find(handle, &card);
    return error ? error : copy(card->name, buffer, size);
}

int nvmlDeviceGetUUID(void *handle, char *buffer, unsigned int size) {
    card_t *card;
    int error = find(handle, &card);
    return error ? error : copy(card->uuid, buffer, size);
}

typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    card_t *card;
    int error = find(handle, &card);
    if (error) return error;
    memset(pci, 0, sizeof *pci);
    pci->domain = card->domain;
    pci->bus = card->bus;
    pci->device = card->device;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", card->domain, card->bus, card->device);
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:%02X.0", card->domain & 0xffff, card->bus & 0xff, card->device & 0xff);
    return SUCCESS;
}

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    card_t *card;
    int error = find(handle, &card);
    if (error) return error;
    if (card->total < 0) return NOT_SUPPORTED;
    memory->total = (unsigned long long)card->total * MIB;
    memory->used = (unsigned long long)card->used * MIB;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *memory) {
    memory_t plain;
    int error = nvmlDeviceGetMemoryInfo(handle, &plain);
    if (error) return error;
    memory->total = plain.total;
    memory->used = plain.used;
    memory->free = plain.free;
    memory->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned int *rates) {
    card_t *card;
    int error = find(handle, &card);
    if (error) return error;
    if (card->util < 0) return NOT_SUPPORTED;
    rates[0] = (unsigned int)card->util;
    rates[1] = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned int *celsius) {
    card_t *card;
    int error = find(handle, &card);
    (void)sensor;
    if (error) return error;
    if (card->temperature < 0) return NOT_SUPPORTED;
    *celsius = (unsigned int)card->temperature;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned int *milliwatts) {
    card_t *card;
    int error = find(handle, &card);
    if (error) return error;
    if (card->power < 0) return NOT_SUPPORTED;
    *milliwatts = (unsigned int)card->power * 1000;
    return SUCCESS;
}

static int list(const processes_t *processes, unsigned int *count, process_t *entries) {
    unsigned int room = *count;
    *count = processes->count;
    if (processes->count == 0) return SUCCESS;
    if (!entries || room < processes->count) return INSUFFICIENT_SIZE;
    memcpy(entries, processes->entry, processes->count * sizeof *entries);
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process_t *entries) {
    card_t *card;
    int error = find(handle, &card);
    return error ? error : list(&card->compute, count, entries);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned int *count, process_t *entries) {
    card_t *card;
    int error = find(handle, &card);
    return error ? error : list(&card->graphics, count, entries);
}
