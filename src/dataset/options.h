#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/options.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// How the process opens the store at an address such as s3://bucket/prefix.
using StoreOpener = std::function<Result<std::shared_ptr<ObjectStore>>(const std::string& address)>;

struct DataOptions {
  std::string format = "idx";
  std::string path = "/usr/share/datasets/fashion-mnist";
  int64_t classes = 10;
  int64_t samples = 0;
  int64_t file_bytes_max = int64_t{4} << 30;
  std::string stage;
  std::string shuffle = "full";
  std::string on_bad_sample = "stop";
  std::string source;
  std::string source_sha256;
  int64_t source_bytes = 0;
  std::string source_note;
  // No option of the user's: main() sets it, for a path that is an address. Null: only folders.
  StoreOpener open_store;
};

inline void describe(OptionSet& set, DataOptions& options) {
  set.add("format", &options.format,
          {.help = "How the samples are stored: idx (MNIST's files, plain or .gz) or cifar10 (the "
                   "binary batches). A folder that `tern data import` made is recognised whatever "
                   "this says.",
           .choices = {"idx", "cifar10"}});
  set.add("path", &options.path,
          {.help = "Folder with the data files; imported data also s3://bucket/prefix, gs:// or "
                   "az://account/container/prefix. May differ between machines: what must agree "
                   "is the content, and that is checked by its id.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("classes", &options.classes,
          {.help = "Number of classes; labels are 0 to classes - 1 in every split. A label outside "
                   "is refused when the data is opened. 0 takes as many as an imported data set "
                   "has.",
           .min = 0,
           .max = 1'000'000});
  set.add(
      "samples", &options.samples,
      {.help = "How many training samples there are, for `tern plan` on a machine that does not "
               "have the data; 0: not told. Where the data is, it is counted.",
       .min = 0,
       .on_resume = OnResume::may_change,
       .across_ranks = AcrossRanks::may_differ});
  set.add("file_bytes_max", &options.file_bytes_max,
          {.help = "Refuse a data file that is, or inflates to, more bytes than this. A larger "
                   "value lets a damaged .gz take that much memory before it is refused.",
           .min = 1,
           .max = 1e15,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add(
      "stage", &options.stage,
      {.help =
           "Copy the data set to this folder of a local disk, once and verified, ahead of need: "
           "for data on a network file system. Empty: read it where it is.",
       .on_resume = OnResume::may_change,
       .across_ranks = AcrossRanks::may_differ});
  set.add(
      "shuffle", &options.shuffle,
      {.help = "How far samples are mixed in every epoch: full; window:W (shards in random order, "
               "the samples of W shards mixed: fewer, longer reads); sequential (not at all)."});
  set.add(
      "on_bad_sample", &options.on_bad_sample,
      {.help = "What a sample that cannot be read or decoded does: stop (the run), skip (the batch "
               "is smaller) or replace (another sample stands in, always the same). Each is named "
               "once and counted in the report.",
       .choices = {"stop", "skip", "replace"}});
  set.add("source", &options.source,
          {.help = "An https:// address to fetch and import the data from when data.path does not "
                   "exist.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("source_sha256", &options.source_sha256,
          {.help = "What the fetched file's SHA-256 must be, in hex digits.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("source_bytes", &options.source_bytes,
          {.help = "How large the fetched file is, to be said before it is fetched.",
           .min = 0,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add(
      "source_note", &options.source_note,
      {.help = "For data that may not be fetched by a program: what to download, and what to type "
               "next. Shown when data.path does not exist.",
       .on_resume = OnResume::may_change,
       .across_ranks = AcrossRanks::may_differ});
}

}  // namespace tern
