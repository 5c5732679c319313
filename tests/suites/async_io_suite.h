// The conformance suite of asynchronous I/O: every engine, and each under faults that AsyncIo
// heals, passes every case. What is read and what lies in the file afterwards is compared each
// time. A case throws what it finds wrong.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "offload/async_io/async_io.h"

namespace ds::test {

using EngineMaker = std::function<std::unique_ptr<IoEngine>(int queue_depth)>;

// AsyncIo over options.thread_count of them.
std::unique_ptr<AsyncIo> make_async_io(const EngineMaker& make, const IoOptions& options);

struct AsyncIoCase {
  const char* name;
  void (*body)(const EngineMaker& make, const std::filesystem::path& folder);
};
std::span<const AsyncIoCase> async_io_cases();

}  // namespace ds::test
