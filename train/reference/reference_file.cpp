#include "train/reference/reference_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/files/digest.h"
#include "core/status/error.h"

namespace ds {
namespace {

// The file: this line, a digest of the facts and of all that follows it, and the pairs of training
// and validation as they lie in memory.
constexpr std::string_view kBegin = "dslaunch reference 1\n";
constexpr size_t kDigest = 16;

std::string bytes_of(std::span<const ReferenceScores::Pair> pairs) {
  const std::span<const std::byte> bytes = std::as_bytes(pairs);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest_of_run(const std::string& facts, const std::string& body) {
  const std::string all = fmt::format("{}\n{}", facts, body);
  const auto digest = xxh3_128(std::as_bytes(std::span(all)));
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::vector<ReferenceScores::Pair> pairs_of(std::string_view bytes) {
  std::vector<ReferenceScores::Pair> pairs(bytes.size() / sizeof(ReferenceScores::Pair));
  std::memcpy(pairs.data(), bytes.data(), bytes.size());
  return pairs;
}

}  // namespace

void write_references(FileSystem& files, const std::string& path, const std::string& facts,
                      const RunReferences& references) {
  const std::string body =
      bytes_of(references.train.pairs()) + bytes_of(references.validation.pairs());
  files.write_text_atomically(path, std::string(kBegin) + digest_of_run(facts, body) + body);
}

std::string read_references(FileSystem& files, const std::string& path, const std::string& facts,
                            RunReferences& references) {
  constexpr auto kPair = static_cast<int64_t>(sizeof(ReferenceScores::Pair));
  const int64_t head = std::ssize(kBegin) + static_cast<int64_t>(kDigest);
  const int64_t of_training = references.train.samples() * kPair;
  const int64_t all = head + of_training + references.validation.samples() * kPair;
  std::string text;
  try {
    text = files.read_text(path, all);
  } catch (const Error& problem) {
    return problem.what();
  }
  const std::string body = std::ssize(text) == all ? text.substr(to_size(head)) : "";
  if (std::ssize(text) != all || !text.starts_with(kBegin) ||
      text.compare(kBegin.size(), kDigest, digest_of_run(facts, body)) != 0) {
    return path + ": it is of another run, or is damaged";
  }
  references.train.set_all(pairs_of(std::string_view(body).substr(0, to_size(of_training))));
  references.validation.set_all(pairs_of(std::string_view(body).substr(to_size(of_training))));
  return "";
}

}  // namespace ds
