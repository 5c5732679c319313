#include "train/monitor/csv_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ds {
namespace {

std::string file_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ' '; }, '_');
  return name + ".csv";
}

// The head, and of what an earlier process wrote the lines up to `samples`.
bool is_row_kept(std::string_view line, int64_t samples) {
  int64_t at = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), at);
  return error != std::errc() || at <= samples;
}

}  // namespace

GrowingFile& CsvSink::file_of(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  GrowingFile& file = files_.try_emplace(name, folder_ + "/" + file_name(name)).first->second;
  file.head("step," + name.substr(name.rfind('/') + 1) + "\n");
  if (from_ > 0) {
    file.keep_lines([from = from_](std::string_view line) { return is_row_kept(line, from); });
  }
  return file;
}

void CsvSink::add(const MonitorBatch& batch) {
  for (const MonitorEvent& event : batch.events) {
    file_of(event.name).add(fmt::format("{},{}\n", batch.samples, event.value));
  }
}

void CsvSink::flush() {
  for (auto& [name, file] : files_) file.flush();
}

}  // namespace ds
