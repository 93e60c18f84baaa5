/*
 * memory.h - how much memory this process may still take.
 *
 * Linux: MemAvailable of /proc/meminfo (free pages and those that the system gives back
 * when asked, cached files among them), and the limits of the control group (containers):
 * version 2 in memory.max, memory.current and memory.stat, version 1 in
 * memory.limit_in_bytes and memory.usage_in_bytes, at every level of the group's path.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that can be had now, files that are cached counted as free; 0: not known. why
 * (may be NULL) gets the source in words. */
uint64_t memory_available(char *why, size_t why_size);

/* The same from other places: "/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup". */
uint64_t memory_available_at(const char *meminfo, const char *proc_file,
                             const char *root, char *why, size_t why_size);

/* Raises this process's limit on memory, where it has one (--mem-limit), by address space
 * that a library maps and hardly touches. */
void memory_allow_unused(uint64_t bytes);

#endif
