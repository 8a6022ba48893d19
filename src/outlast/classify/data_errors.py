"""Malformed input: class names and texts of parsers, archives, images, spreadsheets, PDFs, columnar files, serialisers."""

import re

_KINDS = (
    r"7z|zip|rar|tar|gzip|bzip2|xz|lzma|zstd|lz4|parquet|arrow|feather|orc|avro|hdf5?|netcdf|sqlite|excel|xlsx?|xlsb|ods|docx?|"
    r"pptx?|odf|pdf|png|jpe?g|gif|tiff?|webp|bmp|svg|wav|mp3|flac|ogg|mp4|json|xml|yaml|toml|csv|html|zarr|numpy|npy|pickle|"
    r"shapefile|geojson|wkt|wkb|epub|ttf|iso|protobuf|msgpack|cbor|bson|thrift|ini"
)
_NOUNS = r"file|archive|image|document|header|stream|workbook|record|message|block|chunk|footer|frame|data|input"

CLASS_NAMES = (
    r"(?:Parse|Parser|Parsing|Decode|Decoder|Decoding|Deseriali[sz]\w*|Malformed\w*|Schema|Scanner|Lexer|Tokeni[sz]\w*|Composer|"
    r"Constructor|Unpack\w*|Unpickling|Unmarshal\w*|(?:De|Un)compress\w*|Format|Codec|Charset|Conversion|Coercion|Compute|Shape|"
    r"NoData|EmptyData|EmptyFile|FileData|PdfRead|PdfStream|XLRD|CompDoc|YAML|Yaml|TOML|Toml|LZMA|LZ4\w*|Zstd|Snappy|Brotli|"
    r"Avro\w*|Parquet|Image\w*Format|DecompressionBomb|GEOS|WKT\w*|WKB\w*|Exif|Truncated\w*|Checksum\w*|CRC)(?:Error|Exception|Failure)|"
    r"Malformed(?:Response|Answer|Data)|(?:Bad|Invalid|Corrupt(?:ed)?|Broken|NotA?|Empty|Unidentified)"
    r"(?:7z|Zip|Rar|Tar|Gzip|Xz|Archive|File|Image|PDF|Pdf|Document|Json|JSON|Xml|XML|Yaml|Csv|Format|Data|Bson|Header|Footer|Record|"
    r"Response)\w*|Invalid\w+(?:Encoding|Format)|ExtraData|Corrupt(?:ed|ion)?\w*|PDFSyntaxError|PSEOF|PSSyntaxError|"
    r"(?:Arrow|Multiple)Invalid|Unidentified\w+|OutOfData|JSONDecode\w*|PasswordRequired|WrongPassword"
)
"""Pattern of class names that mean malformed input."""

DATA_TEXTS: tuple[str, ...] = (
    rf"\b(?:corrupt(?:ed)?|truncated|damaged|malformed|garbled)(?: or \w+)? (?:\w+ )?(?:{_NOUNS}|{_KINDS})\b",
    rf"\b(?:{_NOUNS}|{_KINDS}) (?:is|are|seems to be|appears to be|may be) (?:corrupt(?:ed)?|truncated|damaged|malformed|incomplete)\b",
    rf"\bnot (?:an? (?:valid )?|valid )(?:\w+ )?(?:{_KINDS}|image|audio) (?:file|archive|document|image|format|data|stream|input|object|string|workbook)\b",
    r"\b(?:magic (?:bytes?|number)|file (?:signature|header)|central directory|eof marker|startxref|xref table|bof record|start tag|root element)"
    r"\b[\w ,'<>()-]{0,30}\b(?:not found|missing|mismatch|invalid|incorrect|wrong|expected)\b",
    r"\b(?:bad|invalid|wrong|unknown|incorrect) magic\b|\bexpected (?:bof record|\d+ (?:columns|fields))\b",
    rf"\b(?:{_KINDS}) (?:parse|parsing|decode|decoding|syntax|scan|format) (?:error|exception)\b|\bparse ?(?:exception|error)\b|\berror tokenizing data\b",
    rf"\binvalid (?:\w+ )?(?:{_KINDS})(?: (?:content|data|document|file|syntax|format))?(?![\w-]| (?:code|id|name|key|type|schema|path|url|option|parameter|argument))",
    r"(?<!alert )\b(?:decod|decompress|inflat|uncompress|unpack|deseriali[sz]|unpickl|unmarshal)\w*\b[\w :]{0,20}\b(?:failed|failure|error)\b",
    r"\b(?:failed|unable|could not|cannot|error|can't)(?: to| while| when)? (?:decompress|inflat|uncompress|deseriali[sz]|unpickl|unmarshal|unpack)\w*",
    r"(?<![\w.])(?:lz4f?|zstd|brotli|snappy|lzma|bzip2|zlib|gzip)\w*\b[\w :()-]{0,40}\b(?:error|failed|failure|invalid|corrupt\w*|unknown)\b",
    r"\b(?:unsupported|unknown|unrecogni[sz]ed|invalid) (?:file|image|audio|archive|data|document) (?:format|type)\b|\bunsupported format, or\b|"
    r"\bcannot identify image\b|\bfile; not supported\b",
    r"\b(?:unexpected|premature) end of (?:document|archive|string|compressed data|image data)\b|\bextra data(?=[:.]| after| found| at)|\btrailing (?:data|garbage|characters)\b",
    r"\bconversion failed when converting\b|\btried to convert to\b|\bvalue \S+ not in range\b|\bno item named .{1,200} in the archive\b",
    r"\b(?:file|document|archive) (?:is empty|size is 0 bytes)\b|\bempty (?:csv|xml|json|pdf) (?:file|document|data)\b|\bcannot read an empty file\b|"
    r"\bno columns to parse\b|\bno (?:element|root element) found\b",
    r"\b(?:file|document|archive|pdf|workbook) (?:is|has not been) (?:password[- ]protected|encrypted|decrypted)\b|\bbad password for (?:file|archive)\b",
    r"\b(?:bad |incorrect )crc\b|\bcrc(?:32)? (?:check )?(?:error|failed|mismatch)\b|\bchecksum (?:does not|did not|doesn't) match\b",
    r"\bexceeds max_(?:\w+)_(?:len|size)\b|\b(?:could not|unable to|cannot|can't) (?:determine a constructor|find a root element|read the header(?! file))\b",
    r"\bdoes not (?:conform to|match) (?:the )?(?:\w+ )?schema\b|\bis not valid under any of the given schemas\b|\bis required on field \w+|\bincorrect padding\b",
)
"""Lowercase texts that mean malformed input."""

_TEXT_LIMIT = 1024
# A text that matches has one of these parts; most texts have none, and are not searched.
_PARTS = (
    "corrupt,truncat,damage,malform,garbl,incomplete,not a,not valid,magic,signature,header,directory,marker,xref,bof ,tag ,element,columns,"
    "fields,pars,tokeniz,invalid ,decod,compress,inflat,unpack,seriali,pickl,marshal,lz4,zstd,brotli,snappy,lzma,bzip2,zlib,gzip,format,identify,"
    "not supported,end of,extra data,trailing,convert,not in range,archive,empty,0 bytes,crypt,password,crc,checksum,max_,constructor,schema,"
    "on field,padding, type"
).split(",")


def malformed_words(text: str) -> str | None:
    """Return the words of a lowercase text that mean malformed input, or None."""
    text = text[:_TEXT_LIMIT]
    if not any(part in text for part in _PARTS):
        return None
    return next((found[0] for pattern in DATA_TEXTS if (found := re.search(pattern, text))), None)
