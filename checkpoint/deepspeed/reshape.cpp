// Which source files a smaller target layout reads.
#include "checkpoint/deepspeed/reshape.h"

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

using Ranks = std::vector<int64_t>;

void check(const Layout& layout) {
  if (layout.pipe < 1 || layout.tensor < 1 || layout.data < 1) {
    throw ConfigError(fmt::format("reshape: layout {} x {} x {}, expected 1 or more", layout.pipe,
                                  layout.tensor, layout.data));
  }
}

void require_not_larger(std::string_view axis, int64_t source, int64_t target) {
  if (target > source) {
    throw Unsupported(
        fmt::format("reshape: cannot grow the {} size from {} to {}", axis, source, target));
  }
}

// `ranks` in `parts` equal runs.
std::vector<Ranks> split(const Ranks& ranks, int64_t parts) {
  const auto count = narrow<int64_t>(ranks.size());
  if (count % parts != 0) {
    throw Unsupported(fmt::format("reshape: {} source ranks do not divide into {}", count, parts));
  }
  std::vector<Ranks> result;
  for (auto at = ranks.begin(); at != ranks.end(); at += count / parts)
    result.emplace_back(at, at + count / parts);
  return result;
}

void append(Ranks& to, const Ranks& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

RankMap reshape_model_ranks(const Layout& source, const Layout& target) {
  check(source);
  check(target);
  require_not_larger("pipe", source.pipe, target.pipe);
  require_not_larger("tensor", source.tensor, target.tensor);
  RankMap narrower(source.pipe, target.tensor);
  for (int64_t p = 0; p < source.pipe; ++p) {
    Ranks stage;
    for (int64_t t = 0; t < source.tensor; ++t) stage.push_back(p * source.tensor + t);
    const auto parts = split(stage, target.tensor);
    for (int64_t t = 0; t < target.tensor; ++t) narrower.at(p, t) = nth(parts, t);
  }
  RankMap result(target.pipe, target.tensor);
  for (int64_t t = 0; t < target.tensor; ++t) {
    // Whole stages merge where they divide; the list is split as one, whatever each stage
    // contributed.
    Ranks column;
    for (int64_t p = 0; p < source.pipe; ++p) append(column, narrower.at(p, t));
    const auto parts = split(column, target.pipe);
    for (int64_t p = 0; p < target.pipe; ++p) result.at(p, t) = nth(parts, p);
  }
  return result;
}

std::vector<RankMap> reshape_all_ranks(const Layout& source, const Layout& target) {
  require_not_larger("data", source.data, target.data);
  const RankMap model = reshape_model_ranks(source, target);
  std::vector<RankMap> result(to_size(target.data), RankMap(target.pipe, target.tensor));
  for (int64_t p = 0; p < target.pipe; ++p) {
    for (int64_t t = 0; t < target.tensor; ++t) {
      Ranks files;
      for (const int64_t rank : model.at(p, t)) {
        for (int64_t d = 0; d < source.data; ++d)
          files.push_back(rank + d * source.pipe * source.tensor);
      }
      const auto parts = split(files, target.data);
      for (size_t d = 0; d < result.size(); ++d) result[d].at(p, t) = parts[d];
    }
  }
  return result;
}

ModelParallelGroups model_parallel_groups(const Layout& layout) {
  check(layout);
  const auto rank = [&](int64_t p, int64_t d, int64_t t) {
    return (p * layout.data + d) * layout.tensor + t;
  };
  ModelParallelGroups groups;
  for (int64_t p = 0; p < layout.pipe; ++p) {
    for (int64_t d = 0; d < layout.data; ++d) {
      Ranks& group = groups.tensor.emplace_back();
      for (int64_t t = 0; t < layout.tensor; ++t) group.push_back(rank(p, d, t));
    }
    for (int64_t t = 0; t < layout.tensor; ++t) {
      Ranks& group = groups.data.emplace_back();
      for (int64_t d = 0; d < layout.data; ++d) group.push_back(rank(p, d, t));
    }
  }
  for (int64_t d = 0; d < layout.data; ++d) {
    Ranks& group = groups.pipe.emplace_back();
    for (int64_t p = 0; p < layout.pipe; ++p) {
      for (int64_t t = 0; t < layout.tensor; ++t) group.push_back(rank(p, d, t));
    }
  }
  return groups;
}

}  // namespace ds::deepspeed
