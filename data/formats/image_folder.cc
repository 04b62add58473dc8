#include "data/formats/image_folder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/record_format.h"
#include "data/image/codecs.h"
#include "data/joined.h"
#include "data/sha256.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

// Returns the names of data; all that is no folder, such as a link that leads nowhere, is a file.
FolderContent ListData(const std::string& path, IgnoredFiles& ignored) {
  FolderContent content = ContentOf(path);
  if (!content.problem.empty()) throw DataError(content.problem);
  for (const std::string& name : content.others) {
    IsForeignName(name) ? CountIgnored(name, ignored) : content.files.push_back(name);
  }
  std::ranges::sort(content.files);
  return content;
}

std::string Layout() {
  return "the layout is DATA_DIR/train/CLASS/*.jpg and DATA_DIR/val/CLASS/*.jpg (images are read from " +
         ImageExtensions() + ")";
}

// What to do about images that lie in no folders of classes, perhaps beside a table of their labels.
std::string HowToSort(const std::string& split_dir) {
  for (const char* ending : {".csv", ".tsv", "/metadata.csv", "/metadata.jsonl"}) {  // the latter: Hugging Face's
    const std::string table = split_dir + ending;
    if (!IsFile(table)) continue;
    return "if " + table + " has the labels of these images, give --labels=" + table + " --data_dir=" + split_dir +
           "; if it holds texts with labels, give --data_format=sentences";
  }
  return Layout();
}

// Whether a file is an image of a format that is read, whatever its name says: phones and messengers rename pictures.
bool IsReadByContent(const std::string& path) {
  constexpr uint64_t kSignatureBytes = 16;
  try {
    const Codec* codec = FindCodec(ReadBeginning(path, kSignatureBytes));
    return codec != nullptr && codec->size != nullptr && !codec->is_also_of_cameras;
  } catch (const DataError&) {  // counted as a file that is not read
    return false;
  }
}

struct ListedFolder {
  IndexedFile folder;              // its time was taken before its files were listed
  std::vector<std::string> files;  // names, sorted
};

// Collects the folders of one class as os.walk(followlinks=True) does, except that a link to a folder that contains it
// is not followed.
class ClassWalk {
 public:
  // `ignored` counts the files that are not images. `takes_unread`: images of formats that are not read are none of
  // these.
  ClassWalk(std::string split_dir, IgnoredFiles& ignored, bool takes_unread = false)
      : split_dir_(std::move(split_dir)), ignored_(ignored), takes_unread_(takes_unread) {}

  // Returns the folders in torchvision's order: sorted by their whole path.
  std::vector<ListedFolder> Folders(const std::string& class_name) {
    found_.clear();
    Visit(class_name);
    std::ranges::sort(
        found_, {}, [](const ListedFolder& listed) -> const auto& { return listed.folder.name; });
    return std::move(found_);
  }

 private:
  void Visit(const std::string& folder) {
    const std::string path = split_dir_ + "/" + folder;
    const PathStatus status = Stat(path);
    if (!status.problem.empty()) throw DataError("cannot list " + path + ": " + status.problem);
    if (std::find(inside_.begin(), inside_.end(), status.identity) != inside_.end()) return;
    inside_.push_back(status.identity);
    FolderContent content = ListData(path, ignored_);
    std::erase_if(content.files, [this, &path](const std::string& name) {
      if (IsImage(name) || (IsUnreadImage(name) && (takes_unread_ || IsReadByContent(path + "/" + name)))) return false;
      CountIgnored(name, ignored_);
      return true;
    });
    found_.push_back({{folder, 0, status.modified_ns}, std::move(content.files)});
    for (const std::string& child : content.folders) Visit(folder + "/" + child);
    inside_.pop_back();
  }

  std::string split_dir_;
  IgnoredFiles& ignored_;
  const bool takes_unread_;
  std::vector<std::pair<uint64_t, uint64_t>> inside_;  // identities of folders
  std::vector<ListedFolder> found_;
};

void AddFolder(const ListedFolder& listed, int32_t label, RecordIndex& index) {
  const auto folder = static_cast<uint32_t>(index.files.size());
  index.files.push_back(listed.folder);
  for (const std::string& file : listed.files) {
    index.records.push_back({index.names.size(), 0, folder, label});
    index.names += file + '\0';
  }
}

std::string RelativeName(const RecordIndex& index, const IndexEntry& entry) {
  return index.files[entry.file].name + "/" + &index.names[entry.offset];
}

// Fills in the sizes of all files (0 for a file that no longer exists) and the fingerprint over them.
void AddSizes(const std::string& split_dir, RecordIndex& index) {
  std::vector<int64_t> sizes(index.records.size(), -1);
  InParallel(sizes.size(), [&](size_t i) {
    const PathStatus status = Stat(split_dir + "/" + RelativeName(index, index.records[i]));
    if (status.problem.empty()) sizes[i] = static_cast<int64_t>(status.bytes);
  });
  Sha256 hash;
  for (size_t i = 0; i < sizes.size(); ++i) {
    hash.UpdateText(RelativeName(index, index.records[i])).UpdateInteger(sizes[i]);
    index.records[i].bytes = static_cast<uint64_t>(std::max<int64_t>(0, sizes[i]));
  }
  index.fingerprint = hash.Hex();
}

// The split's own folder, the first one, may hold the index, whose writing changes its time: then its list counts.
bool IsFresh(const std::string& split_dir, const RecordIndex& index) {
  std::vector<std::string> names;
  for (const IndexedFile& folder : index.files) names.push_back(folder.name);
  std::vector<IndexedFile> found = StatFiles(split_dir, names);
  if (found == index.files) return true;
  found.front() = index.files.front();
  return found == index.files && ContentOf(split_dir).folders == index.class_names;
}

// Returns the sorted paths of all images in a folder and its subfolders, and counts all other files in `ignored`.
std::vector<std::string> ListImages(const std::string& folder, IgnoredFiles& ignored) {
  const std::string top = ".";
  std::vector<std::string> paths;
  for (const ListedFolder& listed : ClassWalk(folder, ignored, /*takes_unread=*/true).Folders(top)) {
    const std::string below = listed.folder.name == top ? "" : listed.folder.name.substr(top.size()) + "/";
    for (const std::string& file : listed.files) paths.push_back(folder + (below.empty() ? "/" : below) + file);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

RecordIndex ListImageFolder(const std::string& split_dir) {
  RecordIndex index;
  index.format = kImageFolder;
  index.files = StatFiles(split_dir, {"."});
  FolderContent split = ListData(split_dir, index.ignored);
  for (const std::string& file : split.files) CountIgnored(file, index.ignored);
  index.class_names = std::move(split.folders);
  if (index.class_names.empty()) throw DataError("no class folder in " + split_dir, HowToSort(split_dir));
  for (const char* table : {"metadata.csv", "metadata.jsonl"}) {
    if (index.class_names.size() > 1 || !IsFile(split_dir + "/" + table)) continue;
    throw DataError(split_dir + " has one folder alone, " + index.class_names[0] + ", and beside it a " + table,
                    HowToSort(split_dir));
  }
  ClassWalk walk(split_dir, index.ignored);
  for (size_t label = 0; label < index.class_names.size(); ++label) {
    for (const ListedFolder& listed : walk.Folders(index.class_names[label])) {
      AddFolder(listed, static_cast<int32_t>(label), index);
    }
  }
  // A class folder without images remains a class, as the other splits may have some.
  if (index.records.empty()) {
    const std::string ignored = ToText(index.ignored);
    throw DataError("no image in the class folders of " + split_dir + (ignored.empty() ? "" : "; " + ignored),
                    Layout());
  }
  AddSizes(split_dir, index);
  return index;
}

RecordIndex IndexImageFolder(const std::string& split_dir, const KeptIndex& kept) {
  return FreshIndex(
      kept, kImageFolder, [&](const RecordIndex& old) { return IsFresh(split_dir, old); },
      [&](const auto& /*old*/) { return ListImageFolder(split_dir); });
}

std::optional<std::string> FindSplit(const std::string& data_dir, const std::string& split) {
  for (const std::string& folder : SplitFolders(data_dir, {split})) {
    if (IsFolder(folder)) return folder;
  }
  return std::nullopt;
}

std::string RequireSplit(const std::string& data_dir, const std::string& split) {
  if (auto found = FindSplit(data_dir, split)) return *found;
  if (!IsFolder(data_dir)) throw DataError("there is no folder " + data_dir, Layout());
  FolderContent content = ContentOf(data_dir);
  std::ranges::move(content.files, std::back_inserter(content.folders));
  throw DataError(
      "there is no '" + split + "' split: looked for the folder " + Joined(SplitFolders(data_dir, {split})) + ", and " +
          data_dir + " holds " + (content.folders.empty() ? "nothing" : FirstOf(content.folders, /*most=*/5)),
      Layout() +
          "; if the class folders are in DATA_DIR itself, train with --train_split=. --val_fraction=0.1, or "
          "dtrain_data --split=.; scripts/prepare_imagenet.py unpacks ImageNet's archives; of record files name the "
          "beginning with --train_split, or --split, or all with . (if "
          "they are compressed, gunzip them); tables (.parquet, .arrow, .beton) are not read");
}

ImageFolder::ImageFolder(const std::string& split_dir) : ImageFolder(split_dir, ListImageFolder(split_dir)) {}

ImageFolder::ImageFolder(const std::string& split_dir, RecordIndex index, const Classes& classes)
    : split_dir_(split_dir), index_(std::move(index)) {
  TakeClasses(classes);
}

void ImageFolder::TakeClasses(const Classes& classes) {
  const std::vector<std::string>& folders = index_.class_names;
  if (classes.names.empty()) {
    const auto count = static_cast<int64_t>(folders.size());
    if (classes.count == 0 || classes.count == count) return;
    throw DataError(
        split_dir_ + " has " + std::to_string(count) + " class folders, but there are " +
            std::to_string(classes.count) + " classes, whose names are unknown",
        "the label of a class is its folder's position in the sorted list of folders: every class needs a folder");
  }
  std::map<std::string, int32_t> labels;
  for (const std::string& name : classes.names) labels.emplace(name, static_cast<int32_t>(labels.size()));
  std::vector<int32_t> label_of;  // by position in `folders`
  std::vector<std::string> unknown;
  for (const std::string& folder : folders) {
    const auto found = labels.find(folder);
    if (found == labels.end()) unknown.push_back(folder);
    label_of.push_back(found == labels.end() ? -1 : found->second);
  }
  if (!unknown.empty()) {
    throw DataError(split_dir_ + " has class folders that are not among the training split's " +
                        std::to_string(classes.names.size()) + " classes: " + FirstOf(unknown, /*most=*/5),
                    "remove them, or train with their images as well; a split may lack classes, but not add any");
  }
  for (IndexEntry& entry : index_.records) entry.label = label_of[static_cast<size_t>(entry.label)];
  index_.class_names = classes.names;
}

std::vector<uint8_t> ImageFolder::Read(int64_t index) const {
  return ReadWholeFile(Place(index).file, kMostRecordBytes);
}

RecordPlace ImageFolder::Place(int64_t index) const {
  const IndexEntry& entry = index_.records[static_cast<size_t>(index)];
  return {split_dir_ + "/" + index_.files[entry.file].name + "/" + &index_.names[entry.offset]};
}

ImageFiles::ImageFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const PathStatus status = Stat(path);
    if (!status.problem.empty()) {
      throw DataError("cannot read " + path + ": " + status.problem, "name folders of images, or images");
    }
    if (status.kind == PathKind::kFolder) {
      const std::vector<std::string> found = ListImages(path, ignored_);
      files_.insert(files_.end(), found.begin(), found.end());
    } else {
      files_.push_back(path);
    }
  }
  if (!files_.empty()) return;
  const std::string others = ToText(ignored_);
  throw DataError(
      "there is no image in " + (paths.empty() ? "" : paths.front()) + (others.empty() ? "" : "; " + others),
      "images are read from " + ImageExtensions());
}

std::vector<uint8_t> ImageFiles::Read(int64_t index) const {
  return ReadWholeFile(files_[static_cast<size_t>(index)], kMostRecordBytes);
}

}  // namespace dtrain::data
