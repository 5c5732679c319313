#include "core/tasks/task_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

#include "core/memory/cgroup.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// The first word; nothing for "max", which is no number.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole ? std::optional(value) : std::nullopt;
}

// Field 20 of proc(5)'s stat, behind the command in parentheses, which may hold anything.
int64_t threads_of(const fs::path& process) {
  std::ifstream in(process / "stat");
  std::string text;
  if (!std::getline(in, text)) return 0;
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string word;
  for (int field = 3; field < 20 && fields >> word; ++field) {
  }
  int64_t threads = 0;
  fields >> threads;
  return threads;
}

// All that this user can see of his own.
int64_t tasks_of_user(uid_t user) {
  int64_t tasks = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    struct stat status {};
    if (name.find_first_not_of("0123456789") != std::string::npos ||
        stat(entry.path().c_str(), &status) != 0 || status.st_uid != user) {
      continue;
    }
    tasks += threads_of(entry.path());
  }
  return tasks;
}

std::optional<TaskLimit> user_task_limit() {
  rlimit limit{};
  if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return TaskLimit{.name = std::to_string(getuid()),
                   .file = "",
                   .most = static_cast<int64_t>(limit.rlim_cur),
                   .used = tasks_of_user(getuid())};
}

}  // namespace

std::optional<TaskLimit> cgroup_task_limit(std::string_view proc_cgroup,
                                           const CgroupFolders& folders) {
  const std::optional<CgroupPlace> place = controller_place(proc_cgroup, "pids");
  if (!place) return std::nullopt;
  const std::string& root = place->version == 1 ? folders.version_1 : folders.version_2;
  std::optional<TaskLimit> tightest;
  // A container may see its own group as the root, and be told its name from outside.
  for (std::string name = place->name == "/" ? "" : place->name;;
       name.resize(std::min(name.rfind('/'), name.size()))) {
    const std::string folder = root + name;
    const std::optional<int64_t> most = number_in(folder + "/pids.max");
    const std::optional<int64_t> used = number_in(folder + "/pids.current");
    if (most && used) {
      TaskLimit limit{name.empty() ? "/" : name, folder + "/pids.max", *most, *used};
      if (!tightest || limit.room() < tightest->room()) tightest = std::move(limit);
    }
    if (name.empty()) return tightest;
  }
}

TaskLimits task_limits() {
  std::ifstream in("/proc/self/cgroup");
  std::ostringstream text;
  text << in.rdbuf();
  return {cgroup_task_limit(text.str(), {}), user_task_limit()};
}

std::string describe(const TaskLimit& limit) {
  return limit.file.empty()
             ? fmt::format("user {} may have {} processes and threads (ulimit -u) and has {}",
                           limit.name, limit.most, limit.used)
             : fmt::format("cgroup {} allows {} processes and threads (pids.max) and has {}",
                           limit.name, limit.most, limit.used);
}

std::string how_to_raise_cgroup(const TaskLimit& limit, int64_t need) {
  const int64_t enough = limit.used + need;
  return fmt::format(
      "write {0} into {1}; of a container: --pids-limit {0}, or podPidsLimit of the kubelet; of a "
      "systemd unit: TasksMax={0}",
      enough, limit.file);
}

std::string describe_reached(const TaskLimits& limits) {
  constexpr int64_t kNear = 4;  // some may have ended since
  const auto reached = [](const std::optional<TaskLimit>& limit) {
    return limit && limit->room() <= kNear;
  };
  if (reached(limits.cgroup)) {
    return fmt::format("{}; raise it: {}", describe(*limits.cgroup),
                       how_to_raise_cgroup(*limits.cgroup, 2 * limits.cgroup->most));
  }
  if (reached(limits.user)) {
    return fmt::format("{}; raise it: `ulimit -u {}`", describe(*limits.user),
                       2 * limits.user->most);
  }
  std::string out = "the kernel has no room for another process or thread";
  for (const std::optional<TaskLimit>& limit : {limits.cgroup, limits.user}) {
    if (limit) out += "; " + describe(*limit);
  }
  return out + "; look at kernel.threads-max and kernel.pid_max, and for memory";
}

Error no_further_task(std::string_view starting, const std::error_code& why) {
  return {ExitCode::kClusterUnusable, fmt::format("starting {}: {}: {}", starting, why.message(),
                                                  describe_reached(task_limits()))};
}

std::optional<Error> no_further_task(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) return std::nullopt;
  return no_further_task("a thread", error.code());
}

void require_threads(int count, std::string_view purpose) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::thread> threads;
  const auto end_all = [&] {
    {
      const std::scoped_lock lock(mutex);
      over = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (int i = 0; i < count; ++i) {
      threads.push_back(start_thread(purpose, [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over; });
      }));
    }
  } catch (...) {
    end_all();
    throw;
  }
  end_all();
}

}  // namespace ds
