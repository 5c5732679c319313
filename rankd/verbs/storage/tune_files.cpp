#include "rankd/verbs/storage/tune_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cli/text/line_plot.h"
#include "config/reader/convert.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "core/values/number_text.h"

namespace ds {
namespace {

constexpr double kGiga = 1e9;

[[noreturn]] void refuse(const Value& value, std::string_view key, std::string_view expected) {
  throw ConfigError(fmt::format("{}: {}: got {}, expected {}", value.origin().text(), key,
                                value.excerpt(), expected));
}

// "8M" or 8388608.
int64_t bytes_in(const Value& value, std::string_view key) {
  constexpr std::string_view kExpected = "bytes, such as \"1M\", a multiple of 4096";
  int64_t bytes = 0;
  if (value.kind() == Value::Kind::kInteger) {
    bytes = value.as_integer();
  } else if (value.is_string()) {
    const std::string& text = value.as_string();
    const auto end = std::from_chars(text.data(), text.data() + text.size(), bytes);
    const std::string_view unit(end.ptr, text.data() + text.size());
    const int shift = unit.empty()  ? 0
                      : unit == "K" ? 10
                      : unit == "M" ? 20
                      : unit == "G" ? 30
                                    : -1;
    if (end.ec != std::errc() || shift < 0 || bytes > (INT64_MAX >> 31))
      refuse(value, key, kExpected);
    bytes <<= shift;
  } else {
    refuse(value, key, kExpected);
  }
  if (bytes <= 0 || bytes % 4096 != 0) refuse(value, key, kExpected);
  return bytes;
}

int count_in(const Value& value, std::string_view key) {
  constexpr int64_t kMost = 1 << 16;
  if (value.kind() != Value::Kind::kInteger || value.as_integer() < 1 || value.as_integer() > kMost)
    refuse(value, key, "an integer from 1 to 65536");
  return static_cast<int>(value.as_integer());
}

bool boolean_in(const Value& value, std::string_view key) {
  const std::optional<bool> boolean = boolean_of(value);
  if (!boolean) refuse(value, key, "true or false");
  return *boolean;
}

template <class T, class Read>
std::vector<T> list_of(const Member& member, const Read& read) {
  std::vector<T> out;
  const auto add = [&](const Value& value) {
    const T one = read(value, member.key);
    if (std::ranges::find(out, one) != out.end()) refuse(value, member.key, "each value once");
    out.push_back(one);
  };
  if (!member.value.is_list()) {
    add(member.value);
    return out;
  }
  if (member.value.items().empty()) refuse(member.value, member.key, "at least one value");
  for (const Value& value : member.value.items()) add(value);
  return out;
}

Value speed_json(const std::optional<double>& speed) {
  return speed ? Value::number(*speed / kGiga) : Value::null();
}

std::string speed_text(const std::optional<double>& speed) {
  return speed ? fmt::format("{:.2f}", *speed / kGiga) : "-";
}

}  // namespace

SweepSpace read_sweep(std::string_view text, const std::string& source) {
  SweepSpace space;
  const Value document = read_config_document(text, source);
  for (const Member& member : document.members()) {
    if (member.key == "block_size") {
      space.block_sizes = list_of<int64_t>(member, bytes_in);
    } else if (member.key == "queue_depth") {
      space.queue_depths = list_of<int>(member, count_in);
    } else if (member.key == "io_parallel") {
      space.io_parallels = list_of<int>(member, count_in);
    } else if (member.key == "single_submit") {
      space.single_submits = list_of<bool>(member, boolean_in);
    } else if (member.key == "sequential_requests") {
      space.overlap_events = list_of<bool>(member, boolean_in);
      space.overlap_events.flip();
    } else {
      throw ConfigError(
          fmt::format("{}: {} is no axis of a sweep; there are block_size, queue_depth, "
                      "sequential_requests, single_submit, io_parallel",
                      member.origin.text(), member.key));
    }
  }
  return space;
}

Value aio_section(const IoSetting& setting, bool use_gds) {
  Value aio = Value::object();
  aio.set("single_submit", Value::boolean(setting.single_submit));
  aio.set("overlap_events", Value::boolean(setting.overlap_events));
  aio.set("thread_count", Value::integer(setting.io_parallel));
  aio.set("queue_depth", Value::integer(setting.queue_depth));
  aio.set("block_size", Value::integer(setting.block_size));
  if (use_gds) aio.set("use_gds", Value::boolean(true));
  Value out = Value::object();
  out.set("aio", std::move(aio));
  return out;
}

const IoTrial& best_of(const std::vector<IoTrial>& trials) {
  DS_CHECK(!trials.empty(), "tuning: nothing was tried");
  return *std::ranges::max_element(trials, {}, &IoTrial::score);
}

Value trials_json(const std::vector<IoTrial>& trials, bool use_gds) {
  std::vector<Value> list;
  for (const IoTrial& trial : trials) {
    Value one = aio_section(trial.setting, use_gds);
    one.set("read_gb_per_s", speed_json(trial.read));
    one.set("write_gb_per_s", speed_json(trial.write));
    list.push_back(std::move(one));
  }
  const IoTrial& best = best_of(trials);
  Value out = aio_section(best.setting, use_gds);
  out.set("read_gb_per_s", speed_json(best.read));
  out.set("write_gb_per_s", speed_json(best.write));
  out.set("trials", Value::list(std::move(list)));
  return out;
}

std::string trials_table(std::vector<IoTrial> trials, size_t most) {
  std::ranges::stable_sort(trials, std::ranges::greater(), &IoTrial::score);
  std::string out =
      fmt::format("{:>8}  {:>5}  {:<10}  {:<6}  {:>7}  {:>9}  {:>10}\n", "block", "depth",
                  "requests", "submit", "threads", "read GB/s", "write GB/s");
  for (const IoTrial& trial : trials) {
    if (most-- == 0) break;
    const IoSetting& setting = trial.setting;
    const ScaledBytes block = scale_bytes(static_cast<double>(setting.block_size));
    out += fmt::format("{:>8}  {:>5}  {:<10}  {:<6}  {:>7}  {:>9}  {:>10}\n",
                       fmt::format("{:.4g} {}", block.value, block.unit), setting.queue_depth,
                       setting.overlap_events ? "overlapped" : "sequential",
                       setting.single_submit ? "single" : "batch", setting.io_parallel,
                       speed_text(trial.read), speed_text(trial.write));
  }
  return out;
}

std::string trials_plot(const std::vector<IoTrial>& trials, const std::string& title) {
  PlotCurve read{"read", kBlue, {}};
  PlotCurve write{"write", kRed, {}};
  for (size_t i = 0; i < trials.size(); ++i) {
    const auto at = static_cast<double>(i + 1);
    if (trials[i].read) read.points.push_back({at, *trials[i].read / kGiga});
    if (trials[i].write) write.points.push_back({at, *trials[i].write / kGiga});
  }
  std::vector<PlotCurve> curves;
  for (PlotCurve& curve : std::array{std::move(read), std::move(write)}) {
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return line_plot({.title = title, .x_name = "trial", .curves = curves});
}

}  // namespace ds
