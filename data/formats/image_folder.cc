#include "data/formats/image_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "data/error.h"
#include "data/formats/random_access_file.h"
#include "data/formats/split_names.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

constexpr char kLayout[] =
    "the layout is DATA_DIR/train/CLASS/*.jpg and DATA_DIR/val/CLASS/*.jpg (or .png, .webp, .tif, .bmp, .ppm)";

bool HasImageExtension(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kExtensions = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                                  ".pgm", ".tif",  ".tiff", ".webp"};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string extension(name.substr(dot));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

struct Listing {
  std::vector<std::string> folders, files;  // names, sorted by byte value (which is code point order in UTF-8)
};

bool IsFolder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Listing List(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (!folder) throw DataError("cannot list " + path + ": " + std::strerror(errno), kLayout);
  Listing listing;
  errno = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const bool unsure = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
    const bool is_folder = unsure ? IsFolder(path + "/" + name) : entry->d_type == DT_DIR;
    (is_folder ? listing.folders : listing.files).push_back(name);
    errno = 0;
  }
  if (errno != 0) throw DataError("cannot list " + path + ": " + std::strerror(errno));
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.files.begin(), listing.files.end());
  return listing;
}

// Collects the folders of one class as os.walk(followlinks=True) sees them, except that a link to a folder that we are
// inside of is not entered again.
class ClassWalk {
 public:
  explicit ClassWalk(std::string split_dir) : split_dir_(std::move(split_dir)) {}

  // Relative file names in torchvision's order: folders sorted by their whole path, files by name.
  std::vector<std::string> Files(const std::string& class_name) {
    found_.clear();
    Visit(class_name);
    std::sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> names;
    for (const auto& [folder, files] : found_) {
      for (const std::string& file : files) names.push_back(folder + "/" + file);
    }
    return names;
  }

 private:
  void Visit(const std::string& folder) {
    const std::string path = split_dir_ + "/" + folder;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) throw DataError("cannot list " + path + ": " + std::strerror(errno));
    const std::pair<dev_t, ino_t> identity{status.st_dev, status.st_ino};
    if (std::find(inside_.begin(), inside_.end(), identity) != inside_.end()) return;
    inside_.push_back(identity);
    Listing listing = List(path);
    std::erase_if(listing.files, [](const std::string& name) { return !HasImageExtension(name); });
    found_.emplace_back(folder, std::move(listing.files));
    for (const std::string& child : listing.folders) Visit(folder + "/" + child);
    inside_.pop_back();
  }

  std::string split_dir_;
  std::vector<std::pair<dev_t, ino_t>> inside_;
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

// Sizes of all files, −1 where there is none. Many at a time: on a network file system each costs a round trip.
template <typename PathOf>
std::vector<int64_t> FileSizes(size_t count, const PathOf& path_of) {
  std::vector<int64_t> sizes(count, -1);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      struct stat status {};
      if (stat(path_of(i).c_str(), &status) == 0) sizes[i] = static_cast<int64_t>(status.st_size);
    }
  };
  constexpr size_t kFilesPerThread = 512, kMostThreads = 16;
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < std::min(kMostThreads, count / kFilesPerThread); ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  return sizes;
}

}  // namespace

std::optional<std::string> FindSplit(const std::string& data_dir, const std::string& split) {
  for (const std::string& name : SplitNames(split)) {
    if (IsFolder(data_dir + "/" + name)) return data_dir + "/" + name;
  }
  return std::nullopt;
}

std::string RequireSplit(const std::string& data_dir, const std::string& split) {
  if (auto found = FindSplit(data_dir, split)) return *found;
  if (!IsFolder(data_dir)) throw DataError("there is no folder " + data_dir, kLayout);
  std::string tried;
  for (const std::string& name : SplitNames(split)) tried += (tried.empty() ? "" : ", ") + data_dir + "/" + name;
  throw DataError("there is no '" + split + "' split: looked for the folder " + tried, kLayout);
}

ImageFolder::ImageFolder(const std::string& split_dir) : split_dir_(split_dir) {
  class_names_ = List(split_dir).folders;
  if (class_names_.empty()) throw DataError("no class folder in " + split_dir, kLayout);
  ClassWalk walk(split_dir);
  std::string empty_classes;
  for (size_t label = 0; label < class_names_.size(); ++label) {
    std::vector<std::string> files = walk.Files(class_names_[label]);
    if (files.empty()) empty_classes += (empty_classes.empty() ? "" : ", ") + class_names_[label];
    for (std::string& file : files) records_.push_back({std::move(file), static_cast<int32_t>(label)});
  }
  if (!empty_classes.empty()) {
    throw DataError("no image in these class folders of " + split_dir + ": " + empty_classes,
                    "remove the empty folders or add images to them; every folder is a class");
  }

  const std::vector<int64_t> sizes =
      FileSizes(records_.size(), [this](size_t i) { return Location(static_cast<int64_t>(i)); });
  Sha256 hash;
  for (size_t i = 0; i < records_.size(); ++i) {
    hash.UpdateText(records_[i].name);
    hash.UpdateInteger(sizes[i]);
  }
  fingerprint_ = hash.Hex();
}

std::vector<uint8_t> ImageFolder::Read(int64_t index) const { return ReadWholeFile(Location(index)); }

std::string ImageFolder::Location(int64_t index) const {
  return split_dir_ + "/" + records_[static_cast<size_t>(index)].name;
}

}  // namespace dtrain::data
