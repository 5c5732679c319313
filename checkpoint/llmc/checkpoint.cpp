#include "checkpoint/llmc/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::llmc {
namespace {

constexpr const char* kWeights = "fp32";
constexpr const char* kFirstMoment = "exp_avg";
constexpr const char* kSecondMoment = "exp_avg_sq";
constexpr int64_t kFp32 = sizeof(float);

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "state_00000010_" of "DIR/model_00000010.bin"; nothing for other names.
std::optional<std::string> state_prefix(const std::string& path) {
  constexpr std::string_view kBegin = "model_", kEnd = ".bin";
  const std::string name = file_name(path);
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  const std::string step = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  if (step.empty() || step.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return parent_directory(path) + "/state_" + step + "_";
}

bool has_file_like(const FileSystem& files, const std::string& prefix) {
  const std::string begin = file_name(prefix);
  return std::ranges::any_of(files.list(parent_directory(prefix)), [&](const auto& entry) {
    return entry.name.starts_with(begin) && entry.name.ends_with(".bin");
  });
}

class Slot final : public StoredTensors {
 public:
  Slot(std::shared_ptr<const Checkpoint> checkpoint, const std::string& slot)
      : checkpoint_(std::move(checkpoint)), slot_(slot) {
    const DType dtype = checkpoint_->dtype_of(slot);
    for (const auto& [name, place] : checkpoint_->places()) {
      infos_.emplace(name, SafetensorsInfo{.dtype_name = std::string(name_of(dtype)),
                                           .stored_dtype = dtype,
                                           .shape = place.shape,
                                           .bytes = place.shape.numel() *
                                                    static_cast<int64_t>(size_of(dtype))});
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, info] : infos_) names.push_back(name);
    return names;
  }
  const SafetensorsInfo& info(const std::string& name) const override {
    const auto found = infos_.find(name);
    if (found != infos_.end()) return found->second;
    throw DataError(fmt::format("{}: has no {}", checkpoint_->path(), name));
  }
  void read_part(const std::string& name, int64_t offset,
                 std::span<std::byte> into) const override {
    const auto element = static_cast<int64_t>(size_of(checkpoint_->dtype_of(slot_)));
    checkpoint_->read(slot_, checkpoint_->places().at(name), offset / element, into);
  }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::string slot_;
  std::map<std::string, SafetensorsInfo> infos_;
};

}  // namespace

bool is_model_file(const FileSystem& files, const std::string& path) {
  if (!path.ends_with(".bin") || !files.exists(path)) return false;
  if (!std::filesystem::is_regular_file(path)) return false;  // a folder may have such a name
  return is_model(MappedFile(path).bytes());
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const FileSystem& files,
                                                   const std::string& path) {
  auto made = std::make_shared<Checkpoint>();
  made->path_ = path;
  made->model_ = MappedFile(path);
  made->header_ = model_header(path, made->model_.bytes());
  const int64_t bytes = kHeaderBytes + element_count(made->header_) *
                                           static_cast<int64_t>(size_of(made->header_.dtype));
  if (std::ssize(made->model_.bytes()) != bytes) {
    throw DataError(fmt::format("{}: has {} bytes, and a model of these sizes has {}", path,
                                made->model_.bytes().size(), bytes));
  }
  made->places_ = places_of(made->header_);
  made->open_states(files);
  return made;
}

void Checkpoint::open_states(const FileSystem& files) {
  const std::optional<std::string> prefix = state_prefix(path_);
  const auto name_of_rank = [&](int64_t rank) { return fmt::format("{}{:05}.bin", *prefix, rank); };
  if (!prefix || !has_file_like(files, *prefix)) return;
  int64_t ranks = 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::string name = name_of_rank(rank);
    if (!files.exists(name)) {
      throw InputMissing(fmt::format(
          "{}: is missing; the state is of {} ranks, and each has a file of its own", name, ranks));
    }
    MappedFile file(name);
    const StateHeader header = state_header(name, file.bytes());
    if (rank == 0) {
      state_ = header;
      ranks = header.ranks;
    }
    if (header.rank != rank || header.ranks != ranks || header.step != state_.step ||
        header.has_masters != state_.has_masters || header.has_order != state_.has_order) {
      throw DataError(fmt::format("{}: is of rank {} of {} at step {}, and {} is of {} ranks at {}",
                                  name, header.rank, header.ranks, header.step, name_of_rank(0),
                                  ranks, state_.step));
    }
    states_.push_back(std::move(file));
  }
  cut_states(*prefix);
}

// With ZeRO each rank has its part of each tensor, without it all of them.
void Checkpoint::cut_states(const std::string& prefix) {
  const int64_t kinds = state_.has_masters ? 3 : 2;
  const int64_t all = element_count(header_);
  const auto bytes_with = [&](int64_t parts) { return kHeaderBytes + kinds * all / parts * kFp32; };
  const auto fits = [&](const MappedFile& file, int64_t parts) {
    if (all % parts != 0) return false;
    return state_.has_order ? is_order(file.bytes(), bytes_with(parts))
                            : std::ssize(file.bytes()) == bytes_with(parts);
  };
  parts_ = fits(states_.front(), 1) ? 1 : state_.ranks;
  for (const MappedFile& file : states_) {
    if (fits(file, parts_)) continue;
    throw DataError(fmt::format("{}*: a file has {} bytes, expected {}{}", prefix,
                                file.bytes().size(), bytes_with(parts_),
                                state_.has_order ? " and the order of samples" : ""));
  }
  for (const auto& [name, place] : places_) {
    if (place.size % parts_ == 0 && place.begin % parts_ == 0) continue;
    throw DataError(fmt::format("{}*: {} of {} elements cannot be shared by {} ranks", prefix, name,
                                place.size, parts_));
  }
}

std::optional<int64_t> Checkpoint::step() const {
  return states_.empty() ? std::nullopt : std::optional(state_.step);
}

std::vector<std::string> Checkpoint::slots() const {
  if (states_.empty()) return {};
  return {kFirstMoment, kSecondMoment};
}

DType Checkpoint::dtype_of(const std::string& slot) const {
  return slot == kWeights && !state_.has_masters ? header_.dtype : DType::kF32;
}

void Checkpoint::read(const std::string& slot, const Place& place, int64_t begin,
                      std::span<std::byte> into) const {
  const bool is_state = slot != kWeights || state_.has_masters;
  const int64_t kind = slot == kFirstMoment ? 0 : slot == kSecondMoment ? 1 : 2;
  const int64_t parts = is_state ? parts_ : 1;
  const int64_t share = place.size / parts;
  const int64_t first = is_state ? kind * (element_count(header_) / parts) : 0;
  const auto bytes = static_cast<int64_t>(size_of(dtype_of(slot)));
  for (int64_t i = 0; i * bytes < std::ssize(into); ++i) {
    const int64_t index = place.stored_index(begin + i);
    const MappedFile& file = is_state ? nth(states_, index / share) : model_;
    const int64_t at = first + place.begin / parts + index % share;
    std::memcpy(into.data() + i * bytes, file.bytes().data() + kHeaderBytes + at * bytes,
                to_size(bytes));
  }
}

std::shared_ptr<const StoredTensors> stored_slot(std::shared_ptr<const Checkpoint> checkpoint,
                                                 const std::string& slot) {
  return std::make_shared<const Slot>(std::move(checkpoint), slot);
}

}  // namespace ds::llmc
