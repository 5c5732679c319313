// Makes one call to the C library fail, once: preloaded (LD_PRELOAD) into dslaunch and all that it
// starts. FAILING_CALLS names a file in which the calls of all processes are counted (kept in
// memory that they share); FAILING_CALL says which one fails, "rank ftruncate 3 28": the third
// ftruncate of any rank, with errno 28; with 0 it does not return. Without FAILING_CALL calls are
// counted and none fails.
//
// The file is an array of 32-bit counters, kKinds of programs by kCalls in the order of the table
// below; tests/system/limits/failing_calls.py reads it. It catches what programs and libraries call
// by name, not what the C library does inside itself.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr std::array<std::string_view, 33> kCalls{
    "open",        "openat",         "read",      "pread",        "write",     "pwrite",
    "fsync",       "fdatasync",      "ftruncate", "fallocate",    "mmap",      "shm_open",
    "shm_unlink",  "unlink",         "unlinkat",  "rename",       "mkdir",     "fcntl",
    "fchmod",      "fstat",          "opendir",   "flock",        "pipe2",     "socketpair",
    "eventfd",     "signalfd",       "epoll",     "memfd_create", "getrandom", "pidfd_open",
    "posix_spawn", "pthread_create", "writev"};
constexpr std::array<std::string_view, 3> kKinds{"dslaunch", "rank", "other"};

using Counters = std::array<std::array<std::atomic<uint32_t>, kCalls.size()>, kKinds.size()>;

struct Plan {
  Counters* counters = nullptr;
  size_t kind = 0;
  size_t failing_call = kCalls.size();  // none
  uint32_t number = 0;
  int error = 0;
};

size_t place_in(const auto& names, std::string_view name) {
  size_t at = 0;
  while (at < names.size() && names[at] != name) ++at;
  return at;
}

size_t own_kind() {
  std::array<char, 4096> text{};
  const long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
  const long got = file < 0 ? 0 : syscall(SYS_read, file, text.data(), text.size() - 1);
  if (file >= 0) syscall(SYS_close, file);
  const std::string_view line(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  const std::string_view program = line.substr(0, line.find('\0'));
  if (program.ends_with("dslaunch")) return 0;
  return line.find("--from-stdin") != std::string_view::npos ? 1 : 2;
}

Plan read_plan() {
  Plan plan;
  const char* const path = std::getenv("FAILING_CALLS");
  if (path == nullptr) return plan;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (file < 0) return plan;
  const long base =
      syscall(SYS_mmap, nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  syscall(SYS_close, file);
  if (base == -1) return plan;
  plan.counters = reinterpret_cast<Counters*>(base);
  plan.kind = own_kind();
  const char* const wish = std::getenv("FAILING_CALL");
  std::array<char, 32> kind{}, call{};
  if (wish != nullptr &&
      std::sscanf(wish, "%31s %31s %u %d", kind.data(), call.data(), &plan.number, &plan.error) ==
          4 &&
      place_in(kKinds, kind.data()) == plan.kind) {
    plan.failing_call = place_in(kCalls, call.data());
  }
  return plan;
}

// Before every other constructor of the program that makes a call.
const Plan& plan() {
  static const Plan it = read_plan();
  return it;
}

// Whether this call is the one that fails; errno says why.
bool fails(std::string_view call) {
  const Plan& it = plan();
  if (it.counters == nullptr) return false;
  const size_t place = place_in(kCalls, call);
  const uint32_t number = 1 + (*it.counters)[it.kind][place].fetch_add(1);
  if (place != it.failing_call || number != it.number) return false;
  while (it.error == 0) pause();
  errno = it.error;
  return true;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// A function of ours by the C library's name, which the headers have taken already. What is
// variadic there has the most arguments here that it can have; those that were not given are not
// used.
#define DS_CALL(name, call, result, failed, parameters, arguments) \
  extern "C" __attribute__((visibility("default")))                \
  result failing_##name parameters __asm__(#name);                 \
  result failing_##name parameters {                               \
    static auto* const real = next<result parameters>(#name);      \
    return fails(call) ? (failed) : real arguments;                \
  }

DS_CALL(open, "open", int, -1, (const char* a, int b, mode_t c), (a, b, c))
DS_CALL(open64, "open", int, -1, (const char* a, int b, mode_t c), (a, b, c))
DS_CALL(openat, "openat", int, -1, (int a, const char* b, int c, mode_t d), (a, b, c, d))
DS_CALL(openat64, "openat", int, -1, (int a, const char* b, int c, mode_t d), (a, b, c, d))
DS_CALL(read, "read", ssize_t, -1, (int a, void* b, size_t c), (a, b, c))
DS_CALL(pread, "pread", ssize_t, -1, (int a, void* b, size_t c, off_t d), (a, b, c, d))
DS_CALL(pread64, "pread", ssize_t, -1, (int a, void* b, size_t c, off_t d), (a, b, c, d))
DS_CALL(write, "write", ssize_t, -1, (int a, const void* b, size_t c), (a, b, c))
DS_CALL(writev, "writev", ssize_t, -1, (int a, const iovec* b, int c), (a, b, c))
DS_CALL(pwrite, "pwrite", ssize_t, -1, (int a, const void* b, size_t c, off_t d), (a, b, c, d))
DS_CALL(pwrite64, "pwrite", ssize_t, -1, (int a, const void* b, size_t c, off_t d), (a, b, c, d))
DS_CALL(fsync, "fsync", int, -1, (int a), (a))
DS_CALL(fdatasync, "fdatasync", int, -1, (int a), (a))
DS_CALL(ftruncate, "ftruncate", int, -1, (int a, off_t b), (a, b))
DS_CALL(ftruncate64, "ftruncate", int, -1, (int a, off_t b), (a, b))
DS_CALL(fallocate, "fallocate", int, -1, (int a, int b, off_t c, off_t d), (a, b, c, d))
DS_CALL(fallocate64, "fallocate", int, -1, (int a, int b, off_t c, off_t d), (a, b, c, d))
DS_CALL(mmap, "mmap", void*, MAP_FAILED, (void* a, size_t b, int c, int d, int e, off_t f),
        (a, b, c, d, e, f))
DS_CALL(mmap64, "mmap", void*, MAP_FAILED, (void* a, size_t b, int c, int d, int e, off_t f),
        (a, b, c, d, e, f))
DS_CALL(shm_open, "shm_open", int, -1, (const char* a, int b, mode_t c), (a, b, c))
DS_CALL(shm_unlink, "shm_unlink", int, -1, (const char* a), (a))
DS_CALL(unlink, "unlink", int, -1, (const char* a), (a))
DS_CALL(unlinkat, "unlinkat", int, -1, (int a, const char* b, int c), (a, b, c))
DS_CALL(rename, "rename", int, -1, (const char* a, const char* b), (a, b))
DS_CALL(mkdir, "mkdir", int, -1, (const char* a, mode_t b), (a, b))
DS_CALL(fcntl, "fcntl", int, -1, (int a, int b, void* c), (a, b, c))
DS_CALL(fcntl64, "fcntl", int, -1, (int a, int b, void* c), (a, b, c))
DS_CALL(fchmod, "fchmod", int, -1, (int a, mode_t b), (a, b))
DS_CALL(fstat, "fstat", int, -1, (int a, struct stat* b), (a, b))
DS_CALL(fstat64, "fstat", int, -1, (int a, struct stat* b), (a, b))
DS_CALL(opendir, "opendir", DIR*, nullptr, (const char* a), (a))
DS_CALL(flock, "flock", int, -1, (int a, int b), (a, b))
DS_CALL(pipe2, "pipe2", int, -1, (int* a, int b), (a, b))
DS_CALL(socketpair, "socketpair", int, -1, (int a, int b, int c, int* d), (a, b, c, d))
DS_CALL(eventfd, "eventfd", int, -1, (unsigned a, int b), (a, b))
DS_CALL(signalfd, "signalfd", int, -1, (int a, const sigset_t* b, int c), (a, b, c))
DS_CALL(epoll_create1, "epoll", int, -1, (int a), (a))
DS_CALL(memfd_create, "memfd_create", int, -1, (const char* a, unsigned b), (a, b))
DS_CALL(getrandom, "getrandom", ssize_t, -1, (void* a, size_t b, unsigned c), (a, b, c))
DS_CALL(posix_spawn, "posix_spawn", int, errno,
        (pid_t * a, const char* b, const posix_spawn_file_actions_t* c, const posix_spawnattr_t* d,
         char* const* e, char* const* f),
        (a, b, c, d, e, f))
DS_CALL(pthread_create, "pthread_create", int, errno,
        (pthread_t * a, const pthread_attr_t* b, void* (*c)(void*), void* d), (a, b, c, d))

// Only one system call without a name in the C library is of interest; the others may be our own.
extern "C" __attribute__((visibility("default"))) long failing_syscall(long number, long a, long b,
                                                                       long c, long d, long e,
                                                                       long f) __asm__("syscall");
long failing_syscall(long number, long a, long b, long c, long d, long e, long f) {
  static auto* const real = next<long(long, long, long, long, long, long, long)>("syscall");
  return number == SYS_pidfd_open && fails("pidfd_open") ? -1 : real(number, a, b, c, d, e, f);
}
