#include "kernels/matmul/matmul_choices.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "core/files/digest.h"
#include "core/status/error.h"
#include "core/text/hex.h"

namespace ds::kernels {
namespace {

constexpr std::string_view kFormat = "dslaunch matmul choices 1";
constexpr std::string_view kDigest = "xxh3 ";
constexpr int64_t kMostBytes = int64_t{1} << 20;

std::string digest_of(std::string_view text) {
  return hex(xxh3_128(std::as_bytes(std::span(text))));
}

// The line at the front of `rest`, which loses it; a last one without its end is none.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

bool is_shape(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || c == ',' || c == '-';
  });
}

std::optional<MatmulChoices::Algorithm> algorithm_of(std::string_view text) {
  constexpr size_t kDigits = 16;
  MatmulChoices::Algorithm out{};
  if (text.size() != out.size() * kDigits) return std::nullopt;
  for (uint64_t& word : out) {
    const char* const end = text.data() + kDigits;
    const auto [at, error] = std::from_chars(text.data(), end, word, 16);
    if (error != std::errc() || at != end) return std::nullopt;
    text.remove_prefix(kDigits);
  }
  return out;
}

void require(bool holds, std::string_view why) {
  if (!holds) throw DataError(std::string(why));
}

}  // namespace

std::string choices_text(const MatmulPlace& place, const MatmulChoices::Table& table) {
  std::string text = fmt::format("{}\n{}\n{}\n", kFormat, place.gpu, place.library);
  for (const auto& [shape, algorithm] : table) {
    text += fmt::format("{} {:016x}\n", shape, fmt::join(algorithm, ""));
  }
  return fmt::format("{}{}{}\n", text, kDigest, digest_of(text));
}

MatmulChoices::Table parse_choices(std::string_view text, const MatmulPlace& place) {
  std::string_view rest = text;
  require(take_line(rest) == kFormat, "is no list of matmul choices of this version");
  const size_t last = text.rfind(kDigest);
  require(last != std::string_view::npos && last > 0 && text[last - 1] == '\n' &&
              text.substr(last) == fmt::format("{}{}\n", kDigest, digest_of(text.substr(0, last))),
          "is not whole");
  const auto gpu = take_line(rest), library = take_line(rest);
  require(gpu == place.gpu && library == place.library,
          fmt::format("is of {} with {}, not of {} with {}", gpu.value_or("nothing"),
                      library.value_or("nothing"), place.gpu, place.library));
  MatmulChoices::Table table;
  rest.remove_suffix(text.size() - last);
  while (!rest.empty()) {
    const std::string_view line = take_line(rest).value_or("");
    const size_t space = std::min(line.find(' '), line.size());
    const auto algorithm = algorithm_of(line.substr(std::min(space + 1, line.size())));
    require(is_shape(line.substr(0, space)) && algorithm, "has a line that is no choice");
    table.emplace(line.substr(0, space), *algorithm);
  }
  return table;
}

std::string choices_file_name(const MatmulPlace& place) {
  std::string name = fmt::format("matmul {} {}", place.gpu, place.library);
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain) c = '-';
  }
  return name + ".txt";
}

MatmulChoices::MatmulChoices(FileSystem& files, std::string path, MatmulPlace place)
    : files_(files), path_(std::move(path)), place_(std::move(place)) {
  read();
}

// Those of this process count before those of the file.
void MatmulChoices::read() {
  try {
    if (path_.empty() || !files_.exists(path_)) return;
    for (const auto& [shape, algorithm] :
         parse_choices(files_.read_text(path_, kMostBytes), place_)) {
      table_.emplace(shape, algorithm);
    }
  } catch (const Error& error) {
    problem_ = fmt::format("{} is passed over: {}", path_, error.what());
  }
}

// Writes a file of its own that takes the place of the other: several ranks of a host may do so.
void MatmulChoices::write() {
  if (path_.empty()) return;
  const std::string own = fmt::format("{}.{}", path_, getpid());
  try {
    files_.make_directories(parent_directory(path_));
    files_.write_text_atomically(own, choices_text(place_, table_));
    files_.rename(own, path_);
  } catch (const Error& error) {
    problem_ = fmt::format("{} cannot be written: {}", path_, error.what());
  }
}

std::optional<MatmulChoices::Algorithm> MatmulChoices::find(std::string_view shape) const {
  const auto found = table_.find(shape);
  return found == table_.end() ? std::nullopt : std::optional(found->second);
}

MatmulChoices::Algorithm MatmulChoices::keep(const std::string& shape, const Algorithm& algorithm) {
  read();
  const auto [kept, is_new] = table_.emplace(shape, algorithm);
  if (is_new) write();
  return kept->second;
}

}  // namespace ds::kernels
