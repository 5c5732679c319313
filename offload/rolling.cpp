#include "offload/rolling.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

namespace {

bool reads(const RollingOptions& o) { return o.access != RollingAccess::kFill; }
bool writes(const RollingOptions& o) { return o.access != RollingAccess::kRead; }
bool reads_ahead(const RollingOptions& o) { return reads(o) && o.pipeline_read; }
bool writes_behind(const RollingOptions& o) { return writes(o) && o.pipeline_write; }

void check(const RollingOptions& options) {
  DS_CHECK(options.buffers >= 1, "rolling: {} buffers, expected at least 1", options.buffers);
  for (size_t part = 0; part < options.part_bytes.size(); ++part) {
    DS_CHECK(options.part_bytes[part] >= 1, "rolling: part {} has {} bytes, expected at least 1",
             part, options.part_bytes[part]);
  }
  const int needed = buffers_needed(options);
  if (options.buffers >= needed) return;
  throw ConfigError(fmt::format(
      "rolling: {} buffers, expected at least {}: one to work in{}{}. Set buffer_count to {}, or "
      "{} to false",
      options.buffers, needed, reads_ahead(options) ? ", one to read ahead (pipeline_read)" : "",
      writes_behind(options) ? ", one that is being written (pipeline_write)" : "", needed,
      reads_ahead(options) ? "pipeline_read" : "pipeline_write"));
}

// Part k has buffer k mod `buffers`, so that the buffer which is needed next is the one that has
// been under way the longest.
class Planner {
 public:
  explicit Planner(const RollingOptions& options) : options_(options) {
    plan_.part_bytes = options.part_bytes;
    plan_.buffers = options.buffers;
    plan_.access = options.access;
    for (const int64_t bytes : options.part_bytes) {
      plan_.buffer_bytes = std::max(plan_.buffer_bytes, bytes);
    }
  }

  RollingPlan plan() && {
    const int parts = narrow<int>(options_.part_bytes.size());
    const int ahead =
        reads_ahead(options_) ? options_.buffers - (writes_behind(options_) ? 2 : 1) : 0;
    int next = 0;  // the first part that has no buffer yet
    for (int part = 0; part < parts; ++part) {
      for (; next <= std::min(part + ahead, parts - 1); ++next) enter(next);
      if (reads(options_)) add(RollingStep::kAwaitRead, part);
      add(RollingStep::kWork, part);
      if (writes(options_)) add(RollingStep::kWrite, part);
      if (!writes_behind(options_)) await_writes(part);
    }
    await_writes(parts - 1);
    return std::move(plan_);
  }

 private:
  void enter(int part) {
    await_writes(part - options_.buffers);
    if (reads(options_)) add(RollingStep::kRead, part);
  }

  // Awaits the writes of all parts up to and including `last`.
  void await_writes(int last) {
    if (!writes(options_)) return;
    for (; written_ <= last; ++written_) add(RollingStep::kAwaitWrite, written_);
  }

  void add(RollingStep step, int part) {
    plan_.actions.push_back({.step = step, .part = part, .buffer = part % options_.buffers});
  }

  const RollingOptions& options_;
  RollingPlan plan_;
  int written_ = 0;  // parts before this one are written
};

std::string text_of(const RollingAction& action) {
  const std::string buffer = action.buffer < 26
                                 ? std::string(1, static_cast<char>('a' + action.buffer))
                                 : fmt::format("#{}", action.buffer);
  switch (action.step) {
    case RollingStep::kRead:
      return fmt::format("read {} > {}", action.part, buffer);
    case RollingStep::kAwaitRead:
      return fmt::format("have {}", action.part);
    case RollingStep::kWork:
      return fmt::format("work {} in {}", action.part, buffer);
    case RollingStep::kWrite:
      return fmt::format("write {} < {}", action.part, buffer);
    case RollingStep::kAwaitWrite:
      return fmt::format("written {}", action.part);
  }
  throw InternalError("rolling: a step that has no name");
}

}  // namespace

int buffers_needed(const RollingOptions& options) {
  return 1 + (reads_ahead(options) ? 1 : 0) + (writes_behind(options) ? 1 : 0);
}

RollingPlan plan_rolling(const RollingOptions& options) {
  check(options);
  return Planner(options).plan();
}

std::string RollingPlan::to_string() const {
  std::string out;
  bool worked = false;  // the line has its work: what follows the write begins the next line
  for (const RollingAction& action : actions) {
    const bool of_line = action.step == RollingStep::kWrite;
    if (!out.empty()) out += worked && !of_line ? "\n" : "; ";
    if (worked && !of_line) worked = false;
    if (action.step == RollingStep::kWork) worked = true;
    out += text_of(action);
  }
  return out;
}

}  // namespace ds
