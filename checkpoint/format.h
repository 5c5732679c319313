// The checkpoint format, whole.
//
// A checkpoint directory (the *root*) holds one directory per committed *tag*, and two small files:
//
//   latest                   the newest tag, one line; a hint for people and for DeepSpeed's tools
//   epoch                    the newest epoch that opened the root; older writers may not commit
//   global_step12/           a committed tag: it has this name only once all in it is durable
//     manifest.json          what belongs to the tag; the truth
//     rank-00000.pieces      one file per rank that saved
//     named                  empty; there once `latest` has named the tag, so that a `latest` that
//                            names an older one was set by somebody who wants to go back
//   global_step14.tmp.3/     a save in progress, or one that epoch 3 did not finish; never loaded
//   global_step12.old.4/     what epoch 4 is replacing under that name; deleted, or put back after
//                            a crash
//   global_step14.ready.3/   a save with its manifest that epoch 3 did not finish naming; only
//                            where each host keeps its own files (checkpoint/hosts/local_tags.h)
//
// A *piece* is a region (core/values/region.h) of one logical tensor: name, dtype, global shape,
// region, raw little-endian elements. A rank writes the pieces it owns; together the files of a tag
// hold every tensor whole, so any number of ranks with any sharding can read it: every checkpoint
// is universal.
//
// A pieces file is written once, front to back:
//
//   data     pieces one after the other, each beginning on a multiple of 64 bytes; zeros between
//   index    JSON: {"version", "tag", "epoch", "rank", "data_bytes", "pieces": [{"name", "dtype",
//            "shape", "cut", "within", "offset"}], "states": {name: text}, "blocks": hex}, and
//            spaces so that the file's length is a multiple of 4096, which O_DIRECT wants
//            cut: per axis the ranges kept, [[[begin, end], ...], ...]; not there: the whole tensor
//            within: [begin, end), elements of the flattened cut
//            version 1 had "begin" and "end" instead: one number each for a range of elements, or
//            one per axis for a box
//   trailer  the last 64 bytes: "DSPIECES", u64 index offset, u64 index bytes, 16 bytes XXH3-128
//            of the index, 16 zeros, 8 bytes: the first half of the XXH3-128 of the trailer before
//            them
//
// "blocks" holds the XXH3-128 of each 1 MiB block of the data (the last may be shorter), 32 hex
// digits each. The manifest holds each file's length and the digest of its index, and its own
// digest; so one chain of digests leads from the manifest to every byte, and a reader of a part
// needs to read only the blocks that cover it. XXH3 finds accidents, not forgers.
//
//   manifest.json   {"digest":"<32 hex>", and on: "format": "dslaunch checkpoint", "version",
//                   "tag", "step", "epoch", "begun_in", "after": [{"begun_in", "step"}], "skipped",
//                   "files": [{"name", "rank", "bytes", "digest", "host"}]}
//                   begun_in: the epoch that began the line of training that the tag is of, from
//                   step 0 on or from an earlier tag; where it is not there: 0
//                   after: what led to that line (checkpoint/lineage.h); older ones have none
//                   skipped: 1 if the step changed no weight; else it is not there
//                   host: who keeps the file, where each host keeps its own; else it is not there
//                   digest: XXH3-128 of everything after `{"digest":"<32 hex>",`
//
// Commit protocol (checkpoint/commit.h): all files written, synced, digested -> votes to the
// committing rank -> lengths and trailers re-read -> manifest (temporary, sync, rename, directory
// sync) -> directory renamed to the tag -> root synced: committed -> `latest` rewritten atomically.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/lineage.h"
#include "core/values/dtype.h"
#include "core/values/region.h"

namespace ds {

inline constexpr int kManifestVersion = 1;
inline constexpr int kIndexVersion = 2;  // 1 is read, too
inline constexpr int64_t kPieceAlignment = 64;
inline constexpr int64_t kBlockBytes = int64_t{1} << 20;
inline constexpr int64_t kTrailerBytes = 64;
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int64_t kLargestManifest = int64_t{1} << 28;

// XXH3-128 of some bytes, 32 lower-case hex digits in canonical (big-endian) order.
std::string digest_of(std::span<const std::byte> bytes);

struct PieceInfo {
  std::string name;  // "<parameter name>/<slot>"
  DType dtype = DType::kF32;
  Shape shape;  // of the whole tensor
  Region region;
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes() const { return region.numel() * static_cast<int64_t>(size_of(dtype)); }
};

struct FileIndex {
  std::string tag;
  int64_t epoch = 0;
  int rank = 0;
  int64_t data_bytes = 0;
  std::vector<PieceInfo> pieces;
  std::map<std::string, std::string> states;
  std::vector<std::string> blocks;  // digest of each block
};

struct Trailer {
  int64_t index_offset = 0;
  int64_t index_bytes = 0;
  std::string index_digest;
};

// What a rank votes with, and what the manifest keeps of its file.
struct FileVote {
  std::string name;  // in the tag's directory
  int rank = 0;
  int64_t epoch = 0;
  int64_t bytes = 0;   // of the file
  std::string digest;  // of its index
};

struct Manifest {
  std::string tag;
  int64_t step = 0;
  int64_t epoch = 0;
  std::vector<FileVote> files;  // by rank
  // If each host keeps its own files, these name the host that saved each of them. Else empty.
  std::vector<std::string> hosts{};
  int64_t begun_in = 0;  // the epoch that began the line of training
  std::vector<Ancestor> after{};
  bool skipped = false;
  bool knows_lines = true;  // false: written before there were lines
};

std::string pieces_file_name(int rank);  // "rank-00000.pieces"

// Text and back. Parsers throw ValidationError naming `path` and what is wrong; they check every
// number against what it is used for (offsets against data_bytes, regions against shapes).
std::string to_text(const FileIndex& index);
FileIndex parse_index(const std::string& path, const std::string& text);
std::string to_text(const Manifest& manifest);
Manifest parse_manifest(const std::string& path, const std::string& text);
std::vector<std::byte> to_bytes(const Trailer& trailer);  // kTrailerBytes
Trailer parse_trailer(const std::string& path, std::span<const std::byte> bytes,
                      int64_t file_bytes);

}  // namespace ds
