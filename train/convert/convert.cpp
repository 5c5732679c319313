#include "train/convert/convert.h"

#include "core/files/input_files.h"
#include "model/hf/weights.h"
#include "train/convert/merged.h"
#include "train/convert/source.h"
#include "train/convert/unfinished.h"
#include "train/convert/universal.h"
#include "train/model_folder.h"

namespace ds {
namespace {

std::string without_end(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void write_hf(FileSystem& files, const std::string& folder, ConversionSource& source,
              const Conversion& what) {
  std::optional<std::string> config;
  if (!source.config.empty()) config = source.config;
  const std::string tokenizer =
      source.tokenizer.empty() ? config.value_or("byte") : source.tokenizer;
  FolderFrame frame = folder_frame(files, source.model, config, tokenizer, what.dtype);
  frame.dtype_said_by = "--dtype";
  if (what.target == ConversionTarget::kBin) frame.format = WeightFormat::kTorch;
  if (!config) {
    source.about.notes.push_back(fmt::format(
        "it has neither a tokenizer nor the ids of special tokens, as {} from which they would be "
        "taken",
        what.wanted == WantedSource::kAdapters ? "the folder of the model is not here"
                                               : "no --config FOLDER was given"));
  }
  frame.stored_names.clear();  // transformers' names, whatever the source has
  write_model_folder(files, {.folder = folder, .frame = std::move(frame), .specs = source.specs},
                     [&](size_t index, int64_t begin, Tensor& into) {
                       source.read(index, deepspeed::kWeightSlot, begin, into);
                     });
}

}  // namespace

Converted convert(FileSystem& files, const Conversion& what) {
  const std::string destination = without_end(what.destination);
  if (destination.empty()) throw UsageError("the destination has no name; name a folder");
  if (is_there(files, destination)) {
    throw UsageError(fmt::format("{}: is there already; name a folder that is not", destination));
  }
  InputFiles inputs(files);
  ConversionSource source = open_source(inputs, what);
  merge_adapters(source);
  source.read = [&, read = std::move(source.read)](size_t index, const std::string& slot,
                                                   int64_t begin, Tensor& into) {
    what.go_on();
    read(index, slot, begin, into);
  };
  if (what.target == ConversionTarget::kUniversal) require_universal(source, what.dtype);
  files.make_directories(parent_directory(destination));
  Unfinished made(files, destination + ".partial");
  switch (what.target) {
    case ConversionTarget::kHf:
    case ConversionTarget::kBin:
      write_hf(files, made.folder(), source, what);
      break;
    case ConversionTarget::kUniversal:
      write_universal(files, made.folder(), source);
      break;
  }
  what.go_on();
  made.finish_as(destination);
  Converted done = source.about;
  for (const ExportTensor& entry : export_list(source.specs, what.dtype)) {
    ++done.tensors;
    const int64_t numel = entry.tensor.shape.numel();
    const bool has_slots =
        what.target == ConversionTarget::kUniversal && !source.frozen.contains(entry.tensor.name);
    const size_t copies = has_slots ? source.slots.size() + 1 : 1;
    done.numel += numel;
    done.bytes += numel * static_cast<int64_t>(size_of(what.dtype) * copies);
  }
  return done;
}

}  // namespace ds
