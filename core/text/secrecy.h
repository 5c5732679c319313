// Keeps secrets of a running process where they belong: in its memory, while they are needed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Overwrites the bytes, which a compiler may not leave out, and empties the string. Copies that
// others made are theirs to wipe.
void wipe(std::string& secret);
void wipe(std::span<char> bytes);
void wipe(std::vector<std::string>& secrets);

// Random bytes of the kernel's generator. Throws IoError where that gives none.
void fill_random(std::span<std::byte> bytes);

// For buffers through which secrets pass: a string leaves what it held behind when it grows, and at
// its old end when something is taken from its front.
void append_secret(std::string& secret, std::string_view more);
void drop_front(std::string& secret, size_t count);

// Memory for a library that takes functions for it, as OpenSSL does (CRYPTO_set_mem_functions):
// what is given back is overwritten. Libraries wipe the keys that they hold, but not always what
// they wrote them into on the way.
struct WipingMemory {
  static void* allocate(size_t bytes, const char* file, int line);
  static void* resize(void* memory, size_t bytes, const char* file, int line);
  static void release(void* memory, const char* file, int line);
};

// From here on a crash of this process, or of one it starts, leaves no core file and feeds no core
// handler. Debuggers of the same user may still attach.
void forbid_core_dumps();

// From here on no process of the same user may read this one's memory, environment or open files,
// or attach to it; root still may. What the process starts is not hidden.
void hide_from_same_user();

}  // namespace ds
