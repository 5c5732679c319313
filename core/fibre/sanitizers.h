// What sanitizers are told of fibres, and of threads that are fibres. Without the sanitizer
// concerned nothing happens. Files that include it may be compiled without -fsanitize=thread in
// builds that have it elsewhere: so DS_HAS_TSAN (cmake/ds_flags.cmake) says so, and no macro of the
// compiler.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(DS_HAS_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {  // which the runtime exports, and has no header for
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_read_range_pc(void* at, unsigned long bytes, void* code);
void __tsan_write_range_pc(void* at, unsigned long bytes, void* code);
}
#endif

namespace ds::sanitizers {

// AddressSanitizer: the code goes over to another stack, and has come to one. `kept` is what it
// keeps of the stack that is left, null if that is for good.
#if defined(__SANITIZE_ADDRESS__)
inline void leave_stack(void** kept, const void* next, size_t bytes) {
  __sanitizer_start_switch_fiber(kept, next, bytes);
}
inline void reach_stack(void* kept, const void** last, size_t* bytes) {
  __sanitizer_finish_switch_fiber(kept, last, bytes);
}
#else
inline void leave_stack(void** /*kept*/, const void* /*next*/, size_t /*bytes*/) {}
inline void reach_stack(void* /*kept*/, const void** /*last*/, size_t* /*bytes*/) {}
#endif

// ThreadSanitizer: what a fibre is to it, and the order between fibres.
#if defined(DS_HAS_TSAN)
inline constexpr bool kSeesRaces = true;
inline void* new_thread() { return __tsan_create_fiber(0); }
inline void end_thread(void* thread) { __tsan_destroy_fiber(thread); }
inline void* this_thread() { return __tsan_get_current_fiber(); }
inline void name_thread(const char* name) { __tsan_set_fiber_name(this_thread(), name); }
inline void become(void* thread, bool ordered) {
  __tsan_switch_to_fiber(thread, ordered ? 0 : __tsan_switch_to_fiber_no_sync);
}
// What came before release() comes before what follows an acquire() of the same place later on.
inline void release(void* place) { __tsan_release(place); }
inline void acquire(void* place) { __tsan_acquire(place); }
// Accesses on behalf of the code at `code`, by what is not instrumented.
inline void reads(const void* at, size_t bytes, void* code) {
  __tsan_read_range_pc(const_cast<void*>(at), bytes, code);
}
inline void writes(void* at, size_t bytes, void* code) { __tsan_write_range_pc(at, bytes, code); }
inline void look_away() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void look() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
inline constexpr bool kSeesRaces = false;
inline void* new_thread() { return nullptr; }
inline void end_thread(void* /*thread*/) {}
inline void* this_thread() { return nullptr; }
inline void name_thread(const char* /*name*/) {}
inline void become(void* /*thread*/, bool /*ordered*/) {}
inline void release(void* /*place*/) {}
inline void acquire(void* /*place*/) {}
inline void reads(const void* /*at*/, size_t /*bytes*/, void* /*code*/) {}
inline void writes(void* /*at*/, size_t /*bytes*/, void* /*code*/) {}
inline void look_away() {}
inline void look() {}
#endif

// While it lives this thread's accesses count for nothing: those of whoever plays the threads.
class Unseen {
 public:
  Unseen() { look_away(); }
  ~Unseen() { look(); }
  Unseen(const Unseen&) = delete;  // the runtime counts them
  Unseen& operator=(const Unseen&) = delete;
};

// Inside of an Unseen: they count again.
class Seen {
 public:
  Seen() { look(); }
  ~Seen() { look_away(); }
  Seen(const Seen&) = delete;  // the runtime counts them
  Seen& operator=(const Seen&) = delete;
};

}  // namespace ds::sanitizers
