#include "train/monitor/csv_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "step,";
constexpr std::string_view kEnding = ".csv";

std::string file_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ' '; }, '_');
  return name.append(kEnding);
}

// The head, and of what an earlier process wrote the lines up to `samples`.
bool is_row_kept(std::string_view line, int64_t samples) {
  int64_t at = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), at);
  return error != std::errc() || at <= samples;
}

}  // namespace

// Also files of events that come later, or no more, lose what is trained again.
void CsvSink::begin(int64_t samples, double) {
  from_ = samples;
  std::error_code none;  // where nothing has been written yet
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    std::error_code unknown;
    if (!name.ends_with(kEnding) || !fs::is_regular_file(entry.symlink_status(unknown))) continue;
    std::ifstream in(entry.path());
    std::string head;
    if (std::getline(in, head) && head.starts_with(kHead)) file_of(name, head + "\n");
  }
}

GrowingFile& CsvSink::file_of(const std::string& name, const std::string& head) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  GrowingFile& file = files_.try_emplace(name, folder_ + "/" + name).first->second;
  file.head(head);
  if (from_ > 0) {
    file.keep_lines([from = from_](std::string_view line) { return is_row_kept(line, from); });
  }
  return file;
}

void CsvSink::add(const MonitorBatch& batch) {
  for (const MonitorEvent& event : batch.events) {
    const std::string head =
        fmt::format("{}{}\n", kHead, event.name.substr(event.name.rfind('/') + 1));
    file_of(file_name(event.name), head).add(fmt::format("{},{}\n", batch.samples, event.value));
  }
}

void CsvSink::flush() {
  for (auto& [name, file] : files_) file.flush();
}

}  // namespace ds
