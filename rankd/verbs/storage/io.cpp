#include "rankd/verbs/storage/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "cli/text/terminal_text.h"
#include "config/reader/value.h"
#include "core/status/error.h"
#include "offload/tuning/speed_run.h"
#include "rankd/verbs/storage/io_device.h"
#include "rankd/verbs/terminal/input_texts.h"

namespace ds {
namespace {

void note(std::string_view text) { say(stderr, "note: {}\n", text); }

// None: the best of the machine. Names of ds_io that mean one of ours are told.
std::optional<EngineKind> engine_of(const IoArgs& args) {
  const std::string& name = args.engine;
  if (name.starts_with("torch")) {
    throw Unsupported(
        fmt::format("--engine {}: it is PyTorch's, which is no part of dslaunch; "
                    "`--engine threads` reads and writes by plain calls",
                    name));
  }
  if (args.use_gds && name != "auto" && name != "gds" && name != "aio_handle")
    throw UsageError(fmt::format("--use-gds excludes --engine {}", name));
  if (args.use_gds || name == "gds") return EngineKind::kGds;
  if (name == "aio_handle") note("--engine aio_handle is auto: the best engine of this machine");
  if (name == "aio_basic") note("--engine aio_basic is aio: the kernel's queue without AioHandle");
  if (name == "uring") return EngineKind::kUring;
  if (name == "aio" || name == "aio_basic") return EngineKind::kAio;
  if (name == "threads") return EngineKind::kThreads;
  return std::nullopt;
}

// What would be accepted without having an effect.
void refuse_idle_options(const IoArgs& args, bool on_gpu) {
  if (args.fast_io_size > 0)
    throw Unsupported("--fast-io-size is the buffer of torch_fastio, which is PyTorch's");
  if (args.use_accelerator_pin_memory && !on_gpu)
    throw UsageError("--use-accelerator-pin-memory has an effect only with --gpu");
  if (args.slow_bounce_buffer) {
    throw Unsupported("--slow-bounce-buffer: tensors of a GPU always pass through pinned memory");
  }
  if (args.read && args.different_file_each_iteration)
    throw UsageError("--different-file-each-iteration has an effect only on writing");
  if (args.include_warmup_time && args.warmup_loops == 0)
    throw UsageError("--include-warmup-time: there are no --warmup-loops");
  for (const auto& [name, bytes] :
       {std::pair{"--io-size", args.io_size}, std::pair{"--block-size", args.block_size}}) {
    if (bytes % 4096 != 0)
      throw UsageError(fmt::format("{} {}: expected a multiple of 4096", name, bytes));
  }
}

struct Places {
  std::vector<std::string> folders;
  int device = 0;
};

Places places_of(const IoArgs& args, bool on_gpu) {
  Places places{args.folders, 0};
  for (const std::string& text : args.folders_of_devices) {
    const size_t colon = text.rfind(':');
    int device = -1;
    if (colon != std::string::npos)
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), device);
    if (device < 0)
      throw UsageError(fmt::format("--folder-to-device-mapping {}: expected DIR:GPU", text));
    if (!on_gpu)
      throw UsageError("--folder-to-device-mapping has an effect only with --gpu; use --folder");
    if (!places.folders.empty() && places.device != device)
      throw Unsupported("--folder-to-device-mapping: one run measures one GPU; run one for each");
    places.folders.push_back(text.substr(0, colon));
    places.device = device;
  }
  return places;
}

double median(int64_t bytes, const std::vector<double>& seconds) {
  return static_cast<double>(bytes) / speed_of(bytes, seconds);
}

std::string figures_text(const SpeedTimes& times, int64_t bytes, std::string_view what) {
  std::string out;
  for (const auto& [name, seconds] :
       {std::pair{"Task", &times.task}, std::pair{"E2E", &times.end_to_end}}) {
    out += fmt::format("{} {} Latency = {:.6f} s\n{} {} Speed = {:.3f} GB/s\n", name, what,
                       median(bytes, *seconds), name, what, speed_of(bytes, *seconds) / 1e9);
  }
  return out;
}

Value figures_json(const SpeedTimes& times, const SpeedRun& run, const IoArgs& args) {
  const int64_t bytes = run.bytes_per_loop();
  Value out = Value::object();
  out.set("operation", Value::string(args.read ? "read" : "write"));
  out.set("engine", Value::string(run.engine_name()));
  out.set("bytes", Value::integer(bytes));
  out.set("loops", Value::integer(static_cast<int64_t>(times.task.size())));
  out.set("task_latency_s", Value::number(median(bytes, times.task)));
  out.set("task_gb_per_s", Value::number(speed_of(bytes, times.task) / 1e9));
  out.set("e2e_latency_s", Value::number(median(bytes, times.end_to_end)));
  out.set("e2e_gb_per_s", Value::number(speed_of(bytes, times.end_to_end) / 1e9));
  return out;
}

}  // namespace

int run_io(const IoArgs& args) {
  const std::optional<EngineKind> engine = engine_of(args);
  const bool on_gpu = args.gpu || engine == EngineKind::kGds;
  refuse_idle_options(args, on_gpu);
  const Places places = places_of(args, on_gpu);
  SpeedPlan plan{.folders = places.folders,
                 .workers = args.workers,
                 .io_bytes = args.io_size,
                 .loops = args.loops,
                 .warmups = args.warmup_loops,
                 .include_warmups = args.include_warmup_time,
                 .validate = args.validate,
                 .new_file_each_loop = args.different_file_each_iteration,
                 .engine = engine};
  if (engine) make_engine(*engine, {});  // says what is missing before anything is made
  std::optional<IoDevice> device;
  if (on_gpu) {
    const auto tensors = static_cast<int64_t>(places.folders.size()) * args.workers;
    plan.stream = &device.emplace(places.device, args.io_size * tensors).stream();
  }
  const IoSetting setting{.block_size = args.block_size,
                          .queue_depth = args.queue_depth,
                          .overlap_events = !args.sequential_requests,
                          .single_submit = args.single_submit,
                          .io_parallel = args.io_parallel};
  SpeedRun run(plan);
  const SpeedTimes times = args.read ? run.read(setting) : run.write(setting);
  for (const std::string& text : run.notes()) note(text);
  if (args.json) {
    print_now(to_json(figures_json(times, run, args)));
    return 0;
  }
  print_now(fmt::format("{}: {} with {}\n", run.engine_name(), args.read ? "read" : "written",
                        to_text(setting)) +
            figures_text(times, run.bytes_per_loop(), args.read ? "Read" : "Write"));
  return 0;
}

}  // namespace ds
