#include "zero/state/part_file.h"

#include "core/values/index.h"

namespace ds {

std::string PartFile::key(std::string_view what, int part) const {
  return fmt::format("group {} part {} {}", layout_.name, part, what);
}

std::vector<RollingPieces> PartFile::pieces(Gradients gradients) const {
  std::vector<RollingPieces> all;
  for (int part = 0; part < count(); ++part) {
    RollingPieces& of = all.emplace_back();
    of.push_back({.key = state_key(part), .bytes = frame(part).state_bytes()});
    if (gradients == Gradients::kNone) continue;
    of.push_back({.key = key("gradient", part),
                  .offset = frame(part).grad_at(),
                  .bytes = frame(part).grad_bytes(),
                  .is_written = false});
  }
  return all;
}

}  // namespace ds
