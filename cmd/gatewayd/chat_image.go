package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"

	"gatewayd/gateway/provider"
	"gatewayd/internal/problem"
)

// picturesOf reads pictures for a message, as URLs of their bytes. What they are is judged by the bytes and not by the name.
func picturesOf(paths []string) (urls []string, err error) {
	if len(paths) > provider.MaxImages {
		return nil, usagef("--image is given %d times; a message shows %d pictures at most", len(paths), provider.MaxImages)
	}
	for _, path := range paths {
		url, err := pictureOf(path)
		if err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, nil
}

func pictureOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(file, provider.MaxImage+1)) // a device has no size
	if err != nil {
		return "", err
	}
	kind := provider.SniffImage(data)
	switch {
	case kind == "":
		return "", errPicture(path, fmt.Sprintf("is no picture that can be shown: %d bytes of %s", max(info.Size(), int64(len(data))), http.DetectContentType(data)), "PNG, JPEG, GIF and WebP can")
	case len(data) > provider.MaxImage:
		return "", errPicture(path, fmt.Sprintf("is too large: %d bytes of %s, where %d are the most", max(info.Size(), int64(len(data))), kind, provider.MaxImage), "make it smaller")
	}
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}

func errPicture(path, what, remedy string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: path, What: what, Fate: "nothing was said", Remedy: remedy}
}
