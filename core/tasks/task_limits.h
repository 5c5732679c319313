// How many more tasks, as the kernel calls processes and threads alike, may be started here:
// pids.max of the cgroups, of both versions, and RLIMIT_NPROC; and what is said where no further
// one may. Reads files of the kernel and nothing else; what cannot be read is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/status/error.h"

namespace ds {

struct TaskLimit {
  std::string
      name;  // of the cgroup, as the kernel calls it: "/user.slice/job"; of the user: "1000"
  std::string file;  // of the cgroup: where the limit is written
  int64_t most = 0;
  int64_t used = 0;
  int64_t room() const { return most > used ? most - used : 0; }
};

struct TaskLimits {
  std::optional<TaskLimit> cgroup;  // that with the least room, of ours and all above it
  std::optional<TaskLimit> user;    // none for the superuser, whose tasks nobody counts
};
TaskLimits task_limits();

// Which limit is reached, and how to raise it, as Error(kClusterUnusable). `starting`: "a thread
// for the log files".
Error no_further_task(std::string_view starting, const std::error_code& why);
// Explains an exception of the standard library; nothing if it tells of something else.
std::optional<Error> no_further_task(const std::system_error& error);

// Throws no_further_task() where there may be none.
template <typename Work>
std::thread start_thread(std::string_view purpose, Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw no_further_task("a thread for " + std::string(purpose), error.code());
  }
}

// Throws no_further_task() where not so many threads may be there beside those that are, which is
// tried by starting and ending them. For libraries that start threads and do not say when they
// cannot.
void require_threads(int count, std::string_view purpose);

// Pure parts, but for the files below the two folders.
struct CgroupFolders {
  std::string version_1 = "/sys/fs/cgroup/pids";
  std::string version_2 = "/sys/fs/cgroup";
};
// `proc_cgroup`: the text of /proc/<pid>/cgroup.
std::optional<TaskLimit> cgroup_task_limit(std::string_view proc_cgroup,
                                           const CgroupFolders& folders);
// "cgroup /job allows 28 processes and threads (pids.max) and has 28".
std::string describe(const TaskLimit& limit);
// The same with how to raise it, of the limit that is reached, or of all that there are.
std::string describe_reached(const TaskLimits& limits);
// How to make room for `need` tasks more.
std::string how_to_raise_cgroup(const TaskLimit& limit, int64_t need);

}  // namespace ds
