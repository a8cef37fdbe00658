"""What the archive store is made of: places that hold objects (a folder, a bucket), and the meta beside an archive.

drivers/archives.py decides, with these, what counts as an archive; nothing else uses them.
"""
