#include "data/labelled_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/class_names.h"
#include "data/record_source.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/records.h"

namespace ds {
namespace {

using Sample = LabelledSamples::Sample;

Sample sample_of(const LabelledForm& form, std::span<const int32_t> text) {
  const TokenizerFrame& frame = form.frame;
  const int64_t room = room_around(form.length, frame.before.size() + frame.after.size());
  Sample sample{.ids = frame.before};
  append_ids(sample.ids, text.first(to_size(std::min(std::ssize(text), room))));
  sample.is_cut = std::ssize(text) > room;
  append_ids(sample.ids, frame.after);
  sample.second_segment = std::ssize(sample.ids);
  return sample;
}

void add_file(LabelledSamples& texts, const RecordText& file, const Tokenizer& tokenizer,
              const LabelledForm& form) {
  std::vector<RecordField> fields{{.name = form.label, .may_be_list = form.labels.values() > 0},
                                  {.name = form.text}};
  if (form.text_pair) fields.push_back({.name = *form.text_pair});
  for_each_record(file, fields, [&](std::span<const std::string> values, int64_t line) {
    const std::string where = fmt::format("{}:{}", file.path, line);
    const std::vector<int32_t> first = tokenizer.encode(values[1]);
    Sample sample = form.text_pair
                        ? sample_of_pair(form.pair_frame, form.length, first,
                                         tokenizer.encode(values[2]), KeptOfFirst::kBeginning)
                        : sample_of(form, first);
    if (sample.ids.empty()) throw DataError(fmt::format("{}: there is no token in it", where));
    while (form.padding && sample.ids.size() > 1 && sample.ids.back() == *form.padding) {
      sample.ids.pop_back();
    }
    sample.second_segment = std::min(sample.second_segment, std::ssize(sample.ids));
    if (form.labels.values() > 0) {
      sample.values = score_values(form.labels, values[0], where);
    } else {
      sample.label = class_of(form.labels.names, values[0], where);
    }
    texts.add(sample, line);
  });
}

}  // namespace

std::shared_ptr<const TokenSource> open_labelled_texts(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const LabelledForm& form) {
  auto texts = std::make_shared<LabelledSamples>(form.length, form.labels.values());
  for (const std::string& path : expand_paths(files, paths)) {
    const RecordLayout layout = layout_of(files, path, record_layout);
    const std::string content = read_decompressed(files, path);
    texts->begin_file(path);
    add_file(*texts, {.content = content, .path = path, .layout = layout}, tokenizer, form);
  }
  if (texts->count() == 0) {
    throw DataError(fmt::format("{}: there is no record in it", fmt::join(paths, ", ")));
  }
  return texts;
}

}  // namespace ds
