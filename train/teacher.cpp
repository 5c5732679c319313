#include "train/teacher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/input_files.h"
#include "model/stores/second_model.h"
#include "train/engine_pieces.h"

namespace ds {
namespace {

// As its folder names them.
std::vector<ParamSpec> specs_of_second(const ShardedStore& store) {
  std::vector<ParamSpec> specs;
  for (ParamId id = 0; id < store.count(); ++id) {
    ParamSpec spec = store.spec(id);
    if (!spec.second_model) continue;
    spec.name.erase(0, kTeacherPrefix.size());
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

HfWeights open_teacher(FileSystem& files, const std::string& folder,
                       std::span<const ParamSpec> specs) {
  HfWeights weights(files, folder, specs);
  if (!weights.fresh().empty()) {
    throw ConfigError(fmt::format(
        "train.distillation.teacher: {} has no {}, so that there is nothing to learn from", folder,
        fmt::join(weights.fresh(), ", ")));
  }
  return weights;
}

void load_teacher(Engine& engine, FileSystem& files) {
  const std::shared_ptr<const Teacher>& teacher = engine.options().model.teacher;
  if (!engine.options().distillation || teacher == nullptr) return;
  InputFiles inputs(files);
  const std::vector<ParamSpec> specs = specs_of_second(engine.store());
  const HfWeights weights = open_teacher(inputs, teacher->folder, specs);
  HostCopy through(engine.stream());
  engine.store().state().visit_second_model([&](OwnedPart& part) {
    fill_fields(
        engine, part, part.master, through,
        [&](size_t index, int64_t begin, Tensor& values) { weights.read(index, begin, values); },
        WhichModel::kSecond);
  });
}

}  // namespace ds
